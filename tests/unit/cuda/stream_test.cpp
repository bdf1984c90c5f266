#include <doctest/doctest.h>

#include <utility>

#include "attnjit/error.hpp"
#include "cuda/stream.hpp"
#include "unit/cuda_stub_driver.hpp"

using attnjit::Error;
using namespace attnjit::cuda;

TEST_CASE("streams and events are destroyed once") {
  StubDriver& state = reset_stub();
  const Driver driver(stub_api());
  {
    const Stream stream(driver);
    const Event start(driver);
    const Event end(driver);
    start.record(stream.get());
    CHECK(state.last_stream == stream.get());
    end.record(stream.get());
    end.synchronize();
    CHECK(end.elapsed_ms(start) == 1.0f);  // handles are consecutive numbers
    stream.synchronize();
    CHECK(state.live.size() == 3);
  }
  CHECK(state.live.empty());
}

TEST_CASE("is_capturing() holds for active and for invalidated captures") {
  StubDriver& state = reset_stub();
  const Driver driver(stub_api());
  CHECK_FALSE(is_capturing(driver, nullptr));
  state.capture_status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  CHECK(is_capturing(driver, nullptr));
  state.capture_status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
  CHECK(is_capturing(driver, nullptr));
}

TEST_CASE("a capture becomes a graph that can run") {
  StubDriver& state = reset_stub();
  const Driver driver(stub_api());
  const auto stream = reinterpret_cast<CUstream>(0x77);
  {
    Capture capture(driver, nullptr);
    Graph graph = capture.end();
    const Graph moved(std::move(graph));
    const GraphExec exec(moved);
    exec.launch(stream);
    CHECK(state.last_stream == stream);
    CHECK(state.live.size() == 2);
  }
  CHECK(state.live.empty());
  CHECK(state.count("end_capture") == 1);
  CHECK(state.count("graph_destroy") == 1);
}

TEST_CASE("an abandoned capture is ended and its graph dropped") {
  StubDriver& state = reset_stub();
  const Driver driver(stub_api());
  { const Capture capture(driver, nullptr); }
  CHECK(state.count("end_capture") == 1);
  CHECK(state.live.empty());
}

TEST_CASE("a capture that fails to end is not ended again") {
  StubDriver& state = reset_stub();
  state.results["end_capture"] = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  const Driver driver(stub_api());
  {
    Capture capture(driver, nullptr);
    CHECK_THROWS_AS(capture.end(), Error);
  }
  CHECK(state.count("end_capture") == 1);
}

TEST_CASE("relaxed capture mode is restored, also when it is nested") {
  StubDriver& state = reset_stub();
  const Driver driver(stub_api());
  {
    const RelaxedCapture outer(driver);
    { const RelaxedCapture inner(driver); }
    CHECK(state.capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED);
  }
  CHECK(state.capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
}

TEST_CASE("a capture mode that cannot be relaxed stays as it is") {
  StubDriver& state = reset_stub();
  state.results = {{"exchange", CUDA_ERROR_INVALID_CONTEXT}};
  const Driver driver(stub_api());
  {
    const RelaxedCapture relaxed(driver);
    state.results.clear();
  }
  CHECK(state.capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
  CHECK(state.count("exchange") == 1);
}

TEST_CASE("what cannot be created throws and is not destroyed") {
  StubDriver& state = reset_stub();
  state.results = {{"stream", CUDA_ERROR_OUT_OF_MEMORY},
                   {"event", CUDA_ERROR_OUT_OF_MEMORY},
                   {"begin_capture", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
                   {"instantiate", CUDA_ERROR_OUT_OF_MEMORY}};
  const Driver driver(stub_api());
  CHECK_THROWS_AS(Stream{driver}, Error);
  CHECK_THROWS_AS(Event{driver}, Error);
  CHECK_THROWS_AS(Capture(driver, nullptr), Error);
  CHECK_THROWS_AS(GraphExec(Graph(driver, nullptr)), Error);
  for (const char* name : {"stream_destroy", "event_destroy", "end_capture", "exec_destroy"}) {
    CHECK(state.count(name) == 0);
  }
}
