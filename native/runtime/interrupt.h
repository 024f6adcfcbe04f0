// Runs that their caller ends early, as Ctrl-C does.
#pragma once

#include "node_observer.h"
#include "status.h"

namespace executorch_ggml {

// Whether to end the run: anything but 0. Called on the thread that runs, between nodes.
using InterruptCheck = int (*)(void* context);

// From now on the runs of this thread ask `check`, about ten times a second; null: they ask nobody.
void set_interrupt(InterruptCheck check, void* context);

// A graph begins on this thread: it can be interrupted until commit_run(). Of short ones not each is. It ends by itself
// once `status` says that a kernel failed; null: it goes on. `steps` is told of each node; null: nobody is.
void begin_run(bool is_short, const RunStatus* status = nullptr, NodeSteps* steps = nullptr);

// The graph is over: nobody is told of nodes any more. On the thread that began.
void end_run();

// What the graph does from here on must be done whole. On the thread that called.
void commit_run();

// ggml's abort callback: after each node, on the thread that called.
bool run_is_interrupted(void*);

}  // namespace executorch_ggml
