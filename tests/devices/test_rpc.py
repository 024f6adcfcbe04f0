"""ggml-rpc over loopback: devices of other processes, and what happens to this one when they fail."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests import zoo
from tests.devices.rpc_servers import Server, free_port, needs_rpc, server
from tests.devices.test_session import check, session
from tests.helpers import Calls
from torch import Tensor, nn

import executorch_ggml
from executorch_ggml import _session
from executorch_ggml.cli import main
from executorch_ggml.runtime import Session, add_rpc_server
from executorch_ggml.runtime.session import PROLOGUE

pytestmark = needs_rpc


@pytest.fixture(scope="module")
def one() -> Iterator[Server]:
    with server() as running:
        yield running


@pytest.fixture(scope="module")
def other() -> Iterator[Server]:
    with server() as running:
        yield running


class Attention(nn.Module):
    """Without weights of its own: all of it can be computed anywhere."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(torch.relu(x * x + x) @ x.transpose(-1, -2), -1)


class Counting(nn.Module):
    """Its buffer counts on."""

    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        self.count.add_(x)
        return self.count * 2


def mixed(x: Tensor, i: Tensor) -> Tensor:
    """What only this runtime's own kernels compute, products between them, and int64 indices."""
    return torch.relu(x @ x[i].transpose(-1, -2))


def test_a_server_has_a_device_by_two_names(one: Server) -> None:
    (device,) = add_rpc_server(one.endpoint)
    assert (device.kind, device.description) == ("gpu", one.endpoint)
    x = torch.randn(4, 6)
    for name in (one.device, one.device.replace("RPC[", "RPC0["), device.name):
        program = session(Attention(), (x,), name)
        check(program.run(x), [Attention()(x)])
        placement = program.placement(x)
        assert placement.device == device.name
        assert placement.on_device == len(placement.nodes) > 0
        assert (placement.splits, placement.bytes_to_device, placement.bytes_from_device) == (1, 96, 64)


def test_two_servers_at_once(one: Server, other: Server) -> None:
    x = torch.randn(5, 6)
    programs = [session(Attention(), (x,), running.device) for running in (one, other)]
    assert len({program.placement(x).device for program in programs}) == 2
    for _ in range(3):
        for program in programs:
            check(program.run(x), [Attention()(x)])


def test_custom_nodes_and_integers_stay_here(one: Server) -> None:
    x, i = torch.randn(7, 6), torch.arange(5)
    program = session(Calls(mixed), (x, i), one.device)
    for _ in range(2):
        check(program.run(x, i), [mixed(x, i)])
    reasons = {placed.reason for placed in program.placement(x, i).nodes if placed.device == "CPU"}
    assert PROLOGUE in reasons


def test_states_are_on_the_server(one: Server, tmp_path: Path) -> None:
    executorch_ggml.export(Counting(), (torch.zeros(4),)).save(str(tmp_path / "model.pte"))
    executorch_ggml.set_device(one.device)
    try:
        module = executorch_ggml.load(tmp_path / "model.pte")
        eager = Counting()
        for step in range(3):
            x = torch.full((4,), float(step))
            torch.testing.assert_close(module(x), eager(x))
    finally:
        executorch_ggml.set_device("")
    module.reset_state()
    torch.testing.assert_close(module(torch.zeros(4)), torch.full((4,), 2.0))


def test_the_device_of_the_environment(one: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(3, 4)
    executorch_ggml.export(Attention(), (x,)).save(str(tmp_path / "model.pte"))
    monkeypatch.setenv("EXECUTORCH_GGML_DEVICE", one.device)
    torch.testing.assert_close(executorch_ggml.load(tmp_path / "model.pte")(x), Attention()(x))
    monkeypatch.setenv("EXECUTORCH_GGML_DEVICE", f"RPC[127.0.0.1:{free_port()}]")
    with pytest.raises(RuntimeError, match="Connection refused"):
        executorch_ggml.load(tmp_path / "model.pte")(x)


def test_threads_take_turns_on_one_connection(one: Server, tmp_path: Path) -> None:
    """Sessions and programs, which are two libraries, among them."""
    x = torch.randn(16, 32)
    expected = Attention()(x)
    executorch_ggml.export(Attention(), (x,)).save(str(tmp_path / "model.pte"))
    executorch_ggml.set_device(one.device)
    try:
        module = executorch_ggml.load(tmp_path / "model.pte")
        module(x)
    finally:
        executorch_ggml.set_device("")
    programs: list[Any] = [session(Attention(), (x,), one.device).run for _ in range(2)]
    programs.append(lambda x: [module(x)])
    failures: list[BaseException] = []

    def run(program: Any) -> None:
        try:
            for _ in range(100):
                check(program(x), [expected])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(program,)) for program in programs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_model(one: Server) -> None:
    """Custom nodes between those of the server."""
    model = zoo.load("gru", small=True)
    program = session(model.module, model.args, one.device)
    with torch.no_grad():
        expected = model.module(*model.args)
    torch.testing.assert_close(torch.from_numpy(program.run(*model.args)[0]), expected, rtol=1e-4, atol=1e-4)


# ------------------------------------------------------------------------------------------------------------ failures


def test_a_server_that_dies_is_an_error_of_the_run(tmp_path: Path) -> None:
    x = torch.randn(4, 6)
    with server() as running:
        program = session(Attention(), (x,), running.device)
        check(program.run(x), [Attention()(x)])
    for _ in range(2):
        with pytest.raises(RuntimeError, match=f"the RPC server {running.endpoint} was lost: .* start it again"):
            program.run(x)
    with pytest.raises(RuntimeError, match="was lost"):
        session(nn.Linear(6, 3), (x,), running.device)
    del program  # whose memory was there
    check(session(Attention(), (x,), "cpu").run(x), [Attention()(x)])


def run_for_ever(program: Session, x: Tensor) -> None:
    while True:
        program.run(x)


def test_a_server_that_dies_while_it_computes() -> None:
    x = torch.randn(600, 600)

    class Long(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            for _ in range(400):
                x = torch.tanh(x @ x)
            return x

    with server() as running:
        program = session(Long(), (x,), running.device)
        threading.Timer(0.3, running.process.kill).start()
        with pytest.raises(RuntimeError, match="was lost"):
            run_for_ever(program, x)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("RPC[nowhere]", "expected host:port"),
        ("RPC[127.0.0.1:0]", "expected host:port"),
        ("RPC[127.0.0.1:99999]", "expected host:port"),
        ("RPC[:50052]", "expected host:port"),
        ("RPC[no.such.host.invalid:50052]", "host no.such.host.invalid: "),
        ("RPC[127.0.0.1:1]", "Connection refused; is it running"),
        ("RPC77", r"no device RPC77 here; there is cpu.*, and RPC\[host:port\] is one of a server"),
    ],
)
def test_names_of_no_device(name: str, reason: str) -> None:
    with pytest.raises(RuntimeError, match=reason):
        session(Attention(), (torch.randn(2, 3),), name)


def test_a_device_that_a_server_has_not(one: Server) -> None:
    with pytest.raises(RuntimeError, match=r"has 1 device\(s\), and no RPC3\["):
        session(Attention(), (torch.randn(2, 3),), one.device.replace("RPC[", "RPC3["))


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400\r\n\r\n" * 9, b""], ids=["another protocol", "nothing"])
def test_what_is_no_server(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection = listener.accept()[0]
            with connection:
                connection.recv(8)
                connection.sendall(answer)
                connection.shutdown(socket.SHUT_WR)
                connection.recv(100)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(RuntimeError, match="is no RPC server of ggml's"):
            add_rpc_server(f"127.0.0.1:{listener.getsockname()[1]}")
        thread.join()


def test_a_server_that_serves_another() -> None:
    with server() as running, socket.create_connection(("127.0.0.1", int(running.endpoint.rpartition(":")[2]))):
        begin = time.monotonic()
        with pytest.raises(RuntimeError, match="does not answer: it serves one client at a time"):
            add_rpc_server(running.endpoint)
        assert time.monotonic() - begin < 15


def test_a_forked_process_does_not_share_the_connection(one: Server) -> None:
    x = torch.randn(4, 6)
    program = session(Attention(), (x,), one.device)
    check(program.run(x), [Attention()(x)])
    child = os.fork()
    if child == 0:
        try:
            program.run(x)
        except RuntimeError as error:
            os._exit(0 if "forked" in str(error) else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    check(program.run(x), [Attention()(x)])


# --------------------------------------------------------------------------------------------------------- the command


def test_devices_lists_those_of_servers(one: Server, other: Server, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices", "--add-rpc", one.endpoint, "--add-rpc", other.endpoint]) == 0
    lines = capsys.readouterr().out.splitlines()
    for running in (one, other):
        assert any(line.startswith("RPC") and line.endswith(f"\tgpu\t{running.endpoint}") for line in lines)
    assert main(["devices", "--add-rpc", f"127.0.0.1:{free_port()}"]) == 1
    assert "Connection refused" in capsys.readouterr().err


def test_the_command_refuses_what_it_cannot_listen_at(one: Server, capsys: pytest.CaptureFixture[str]) -> None:
    port = one.endpoint.rpartition(":")[2]
    for arguments, code, reason in (
        (["--port", port], 1, f"cannot listen at 127.0.0.1:{port}: Address already in use"),
        (["--port", "0"], 2, "Invalid value for '--port': 0 is not in the range"),
        (["--threads", "-1"], 2, "Invalid value for '--threads': -1 is not in the range"),
        (["--host", "no.such.host.invalid"], 1, "cannot listen at no.such.host.invalid"),
        (["--port", str(free_port()), "--device", "nothing"], 1, "no device nothing here"),
    ):
        assert main(["rpc-server", *arguments]) == code
        assert reason in capsys.readouterr().err


@pytest.mark.parametrize(("host", "warns"), [("127.0.0.1", False), ("localhost", False), ("0.0.0.0", True)])
def test_the_command_warns_of_other_hosts(
    host: str, warns: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    served = []
    monkeypatch.setattr(_session, "serve_rpc", lambda *arguments: served.append(arguments))
    before = signal.getsignal(signal.SIGINT)
    try:
        port = free_port()
        assert main(["rpc-server", "--host", host, "--port", str(port), "--threads", "2"]) == 0
    finally:
        signal.signal(signal.SIGINT, before)
    assert served == [(f"{'0.0.0.0' if warns else '127.0.0.1'}:{port}", ["cpu"], 2)]
    assert ("no authentication" in capsys.readouterr().err) == warns


def test_the_command_says_where_it_serves_in_json() -> None:
    port = free_port()
    line = [sys.executable, "-m", "executorch_ggml", "rpc-server", "--port", str(port), "--threads", "1", "--json"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        process.terminate()
    endpoint = f"127.0.0.1:{port}"
    assert said == {"endpoint": endpoint, "name": f"RPC[{endpoint}]", "devices": ["cpu"], "threads": 1}


def test_ctrl_c_ends_the_server() -> None:
    with server() as running:
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(10) == -signal.SIGINT


def test_a_process_that_lost_its_server_ends_well() -> None:
    script = """
import os, signal, sys
import torch
from tests.devices.rpc_servers import server
from tests.devices.test_rpc import Attention
from tests.devices.test_session import session

with server() as running:
    x = torch.randn(4, 6)
    program = session(Attention(), (x,), running.device)
    program.run(x)
try:
    program.run(x)
except RuntimeError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, "was lost" in done.stdout) == (0, True), done.stderr
