#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cli/report/exit_code.hpp"
#include "cli/work/session.hpp"
#include "cli/work/workload.hpp"

namespace attnjit::cli {

struct EmitOptions {
  WorkloadOptions workload;
  std::string format;  ///< empty: cuda, or facts for a manifest
  std::string output;  ///< a file; empty: stdout
  std::string step;    ///< a number from 1, or a name; empty: attn_fwd or attn_bwd_dkv (facts: all)
};

struct RunOptions {
  WorkloadOptions workload;
  std::string on = "auto";  ///< or "gpu" or "cpu"
  std::string rows;         ///< see choose_sample()
  bool time = false;        ///< on a GPU: times each problem as well
};

struct ReplayOptions {
  std::string dump;         ///< a folder of calls, or one of its files
  std::string on = "auto";  ///< or "gpu" or "cpu"
  std::string arch;         ///< on the CPU; empty: the call's
  std::string config;       ///< in the place of the call's; may be empty
  std::string path;         ///< the same; empty: the call's configuration
  bool shrink = false;
  std::string output;  ///< a folder for the calls that are left of those that fail; may be empty
};

struct BenchOptions {
  WorkloadOptions workload;
  std::string filter;              ///< part of the names of the problems to time; empty: all
  std::string output;              ///< a file for the results; empty: none
  std::string git;                 ///< the commit that was built; may be empty
  bool roofline = false;           ///< with shares of the device's peaks
  bool profile = false;            ///< with counters of the main kernel, by ncu
  std::string html;                ///< a file for a page of the results; empty: none
  std::vector<std::string> peers;  ///< files of other libraries' results, for that page
};

struct TuneOptions {
  WorkloadOptions workload;
  bool force = false;  ///< measure again what has a record
  bool stale = false;  ///< measure again what has a runtime::is_stale() record
  std::string html;    ///< a file for a page of the results; empty: none
  std::string shard;   ///< "I/N": the problems of a manifest that this machine tunes; empty: all
};

struct WarmupOptions {
  WorkloadOptions workload;
  bool check = false;  ///< compile nothing, report what is missing
};

enum class RecordsVerb { kList, kShow, kExport, kImport, kMerge };

struct RecordsOptions {
  RecordsVerb verb = RecordsVerb::kList;
  std::string id;                  ///< of kShow: the id or its first digits
  std::vector<std::string> files;  ///< to import or merge, JSON lines
  std::string output;              ///< of export and merge; empty: stdout
  bool shipped = false;            ///< of kList: also those that came with the library
};

enum class CacheVerb { kPath, kList, kShow, kStat, kVerify, kCollect, kClear };

struct CacheOptions {
  CacheVerb verb = CacheVerb::kPath;
  std::string key;  ///< of kShow: the whole key or a prefix that only one entry has
};

struct ExportOptions {
  std::string file;
  WorkloadOptions workload;  ///< a manifest, or nothing for all that the cache holds; and archs
};

// The verbs. Each writes its report and returns how it went; what concerns the verb as a whole is
// thrown as Error.

/// Reports the parts found on this machine, and how to get those that are missing.
ExitCode doctor(Session& session);

/// Which kernels a problem runs, with which configuration and why.
ExitCode plan(const WorkloadOptions& options, Session& session);

/// Where a problem's time goes by the counts of its kernels and committed measurements, and what
/// would make it faster.
ExitCode explain(const WorkloadOptions& options, Session& session);

/// Writes a kernel in one of its forms, or compiles kernels and tells the compiler's facts.
ExitCode emit(const EmitOptions& options, Session& session);

/// Runs problems on random inputs, on a GPU or on the CPU, and compares with the reference.
ExitCode run(const RunOptions& options, Session& session);

/// Runs the calls of a dump again, on a GPU or on the CPU, and judges what they give now and gave
/// then.
ExitCode replay(const ReplayOptions& options, Session& session);

/// Times problems on the first GPU, their inputs not in L2, and writes the results.
ExitCode bench(const BenchOptions& options, Session& session);

/// Measures which configuration of each problem is fastest on the first GPU, in a worker process,
/// and keeps records.
ExitCode tune(const TuneOptions& options, Session& session);

/// Tunes what tune asks for on the standard input, in a process of its own; hidden from users.
ExitCode tune_worker(Session& session);

/// Compiles the kernels of each problem for architectures, without a GPU.
ExitCode warmup(const WarmupOptions& options, Session& session);

/// Looks at the tuning records on disk, or carries them elsewhere.
ExitCode records(const RecordsOptions& options, Session& session);

/// Looks at what is on disk, or removes kernels.
ExitCode cache(const CacheOptions& options, Session& session);

/// Writes kernels and tuning records of the cache directory into a bundle: all of them, or those
/// that a manifest needs.
ExitCode cache_export(const ExportOptions& options, Session& session);

/// Puts the members of a bundle into the cache directory.
ExitCode cache_import(const std::string& file, Session& session);

}  // namespace attnjit::cli
