"""Hooks for pytest-xdist: a worker that crashes ends the run at once.

By default xdist starts another worker in its place, and its `loadfile` scheduler hands it the crashed worker's file
from the test that crashed on: worker after worker dies, and the last one waits forever for the test after its own.
Without replacement xdist still waits until the other workers have finished what they were given.
"""

from __future__ import annotations

import os

import pytest
from xdist.dsession import DSession
from xdist.workermanage import WorkerController


def pytest_configure(config: pytest.Config) -> None:
    """Start no worker in place of one that crashed, and let the controller notice each crash."""
    config.option.maxworkerrestart = "0"
    if hasattr(config, "workerinput"):
        _keep_pipe_from_children(config)


@pytest.hookimpl(optionalhook=True)  # xdist may be off
def pytest_testnodedown(node: WorkerController, error: object) -> None:
    """Wait for no other worker: the session's end kills those that are still in a test, after ten seconds."""
    if error is not None:
        session = _session(node.config)
        session.shouldstop = session.shouldstop or f"the run ends: worker {node.gateway.id} crashed outside of a test"
        session._active_nodes.intersection_update({node})  # xdist removes this one itself


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(crashitem: str, report: pytest.TestReport) -> None:
    """Name the test that was running, which xdist finds out after it told that the worker is down."""
    _session(report.node.config).shouldstop = f"the run ends: {crashitem} crashed its worker"


def _session(config: pytest.Config) -> DSession:
    session = config.pluginmanager.getplugin("dsession")
    assert isinstance(session, DSession)
    return session


def _keep_pipe_from_children(config: pytest.Config) -> None:
    """Take the controller's pipe from forked children: it sees a worker's end only when the last writer is gone."""
    worker = next(plugin for plugin in config.pluginmanager.get_plugins() if hasattr(plugin, "workerid"))
    pipe = worker.channel.gateway._io.outfile.fileno()
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.register_at_fork(after_in_child=lambda: os.dup2(nothing, pipe))
