#pragma once
#include "cuda/driver.hpp"

namespace attnjit::cuda {

/// A stream that does not synchronise with the default stream.
class Stream {
 public:
  explicit Stream(const Driver& driver);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  CUstream get() const { return stream_; }
  void synchronize() const;

 private:
  const Driver* driver_;
  CUstream stream_ = nullptr;
};

/// An event with timing.
class Event {
 public:
  explicit Event(const Driver& driver);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(CUstream stream) const;
  void synchronize() const;

  /// Milliseconds from `start` to this event; both must have completed.
  float elapsed_ms(const Event& start) const;

 private:
  const Driver* driver_;
  CUevent event_ = nullptr;
};

/// Whether `stream` is being captured into a graph.
bool is_capturing(const Driver& driver, CUstream stream);

/// While it lives, the calling thread may make calls that a capture elsewhere would forbid, such
/// as loading a library or allocating on another stream. Where the driver refuses it, those calls
/// say why.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Driver& driver) noexcept;
  ~RelaxedCapture();
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const Driver* driver_;
  CUstreamCaptureMode previous_ = CU_STREAM_CAPTURE_MODE_RELAXED;
  const bool relaxed_;
};

/// A captured graph.
class Graph {
 public:
  /// Takes ownership of `graph`.
  Graph(const Driver& driver, CUgraph graph) : driver_(&driver), graph_(graph) {}
  ~Graph();
  Graph(Graph&& other) noexcept;
  Graph& operator=(Graph&&) = delete;

  const Driver& driver() const { return *driver_; }
  CUgraph get() const { return graph_; }

 private:
  const Driver* driver_;
  CUgraph graph_;
};

/// Captures the work that is enqueued on a stream until end(). Destroyed before end(), it ends
/// the capture and drops the graph.
class Capture {
 public:
  Capture(const Driver& driver, CUstream stream,
          CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL);
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  /// Ends the capture. Call it once.
  Graph end();

 private:
  const Driver* driver_;
  CUstream stream_;
  bool open_ = true;
};

/// An executable graph.
class GraphExec {
 public:
  explicit GraphExec(const Graph& graph);
  ~GraphExec();
  GraphExec(const GraphExec&) = delete;
  GraphExec& operator=(const GraphExec&) = delete;

  void launch(CUstream stream) const;

 private:
  const Driver* driver_;
  CUgraphExec exec_ = nullptr;
};

}  // namespace attnjit::cuda
