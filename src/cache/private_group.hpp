#pragma once
#include <grp.h>
#include <pwd.h>
#include <sys/types.h>

namespace attnjit::cache {

/// Whether `group` is the one that the system made for `owner` alone, so that what it may write
/// nobody else may: the owner's primary group, of the owner's name, without another member.
bool is_private_group(const passwd& owner, const group& group);

/// The same of the users and groups of this system; false where it does not know them.
bool is_private_group(uid_t owner, gid_t group);

}  // namespace attnjit::cache
