#include "cuda/stream.hpp"

#include <utility>

namespace attnjit::cuda {

Stream::Stream(const Driver& driver) : driver_(&driver) {
  driver.check(driver.api().stream_create(&stream_, CU_STREAM_NON_BLOCKING), "create a stream");
}

Stream::~Stream() { driver_->api().stream_destroy(stream_); }

void Stream::synchronize() const {
  driver_->check(driver_->api().stream_synchronize(stream_), "finish the work of a stream");
}

Event::Event(const Driver& driver) : driver_(&driver) {
  driver.check(driver.api().event_create(&event_, CU_EVENT_DEFAULT), "create an event");
}

Event::~Event() { driver_->api().event_destroy(event_); }

void Event::record(CUstream stream) const {
  driver_->check(driver_->api().event_record(event_, stream), "record an event");
}

void Event::synchronize() const {
  driver_->check(driver_->api().event_synchronize(event_), "wait for an event");
}

float Event::elapsed_ms(const Event& start) const {
  float milliseconds = 0;
  driver_->check(driver_->api().event_elapsed_time(&milliseconds, start.event_, event_),
                 "read the time between two events");
  return milliseconds;
}

bool is_capturing(const Driver& driver, CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  driver.check(driver.api().stream_is_capturing(stream, &status),
               "ask whether a stream is being captured");
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

RelaxedCapture::RelaxedCapture(const Driver& driver) noexcept
    : driver_(&driver), relaxed_(driver.api().exchange_capture_mode(&previous_) == CUDA_SUCCESS) {}

RelaxedCapture::~RelaxedCapture() {
  if (relaxed_) driver_->api().exchange_capture_mode(&previous_);
}

Graph::~Graph() {
  if (graph_ != nullptr) driver_->api().graph_destroy(graph_);
}

Graph::Graph(Graph&& other) noexcept
    : driver_(other.driver_), graph_(std::exchange(other.graph_, nullptr)) {}

Capture::Capture(const Driver& driver, CUstream stream, CUstreamCaptureMode mode)
    : driver_(&driver), stream_(stream) {
  driver.check(driver.api().stream_begin_capture(stream, mode), "begin a stream capture");
}

Capture::~Capture() {
  if (!open_) return;
  CUgraph graph = nullptr;
  driver_->api().stream_end_capture(stream_, &graph);
  if (graph != nullptr) driver_->api().graph_destroy(graph);
}

Graph Capture::end() {
  open_ = false;
  CUgraph graph = nullptr;
  driver_->check(driver_->api().stream_end_capture(stream_, &graph), "end a stream capture");
  return Graph(*driver_, graph);
}

GraphExec::GraphExec(const Graph& graph) : driver_(&graph.driver()) {
  driver_->check(driver_->api().graph_instantiate(&exec_, graph.get(), 0), "instantiate a graph");
}

GraphExec::~GraphExec() { driver_->api().graph_exec_destroy(exec_); }

void GraphExec::launch(CUstream stream) const {
  driver_->check(driver_->api().graph_launch(exec_, stream), "launch a graph");
}

}  // namespace attnjit::cuda
