#pragma once
#include <grp.h>
#include <pwd.h>
#include <sys/types.h>

namespace attnjit::cache {

/// Whether `group` is the private group of `owner`: the owner's primary group, with the owner's
/// name and no other member. Files that it may write are then writable by the owner alone.
bool is_private_group(const passwd& owner, const group& group);

/// The same of the users and groups of this system; false where it does not know them.
bool is_private_group(uid_t owner, gid_t group);

}  // namespace attnjit::cache
