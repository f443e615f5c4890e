"""`trainyard serve` as a program that speaks HTTP: who may ask, what is answered, and what it survives.

Run by tests/serve/http_test.sh with TRAINYARD_COMMAND, the program. The page itself is tested by page.mjs.
"""
import concurrent.futures
import copy
import gzip
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import time

import pytest

TREE = pathlib.Path(__file__).resolve().parents[2]
COMMAND = os.environ["TRAINYARD_COMMAND"]
SCENARIO = json.loads((TREE / "scenarios/llama3/llama3_8b_8xh100.json").read_text())


class Server:
    """A running server, and requests to it."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen([COMMAND, "serve", *arguments], stdout=subprocess.PIPE, text=True, cwd=TREE)
        self.line = self.process.stdout.readline()
        address = re.search(r"http://([^/]+):(\d+)/\?token=([0-9a-f]{32})", self.line)
        assert address, self.line
        self.host, self.port, self.token = address[1], int(address[2]), address[3]

    def ask(self, method, path, body=None, headers=None, at="127.0.0.1"):
        """The status, the headers and the text of a response."""
        connection = http.client.HTTPConnection(at, self.port, timeout=60)
        sent = {"Authorization": "Bearer " + self.token, "Content-Type": "application/json"}
        sent.update(headers or {})
        sent = {name: value for name, value in sent.items() if value is not None}
        connection.request(method, path, body, sent)
        response = connection.getresponse()
        data = response.read()
        connection.close()
        return response.status, response.headers, data

    def post(self, kind, wait_ms=10_000, **members):
        status, _, text = self.ask("POST", f"/api/jobs?wait_ms={wait_ms}", json.dumps({"kind": kind, **members}))
        assert status == 200, text
        return json.loads(text)

    def job(self, number, after=0, wait_ms=0):
        return json.loads(self.ask("GET", f"/api/jobs/{number}?after={after}&wait_ms={wait_ms}")[2])

    def ended(self, state, seconds=60):
        """The state of a job when it has ended."""
        late = time.monotonic() + seconds
        while state["status"] in ("waiting", "running"):
            assert time.monotonic() < late, state
            state = self.job(state["id"], state["revision"], 1000)
        return state

    def run(self, scenario, **members):
        return self.ended(self.post("run", scenario=scenario, **members))

    def workers(self):
        children = pathlib.Path(f"/proc/{self.process.pid}/task").glob("*/children")
        return [int(pid) for file in children for pid in file.read_text().split()]

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(timeout=20)


@pytest.fixture(scope="module")
def server():
    running = Server("--processes", "2")
    yield running
    assert running.stop() == 0


def changed(**changes):
    """The scenario with changes: {"training.micro_batch_size": 2}"""
    document = copy.deepcopy(SCENARIO)
    for path, value in changes.items():
        place = document
        *way, last = path.split("__")
        for key in way:
            place = place[key]
        place[last] = value
    return document


# ---- who may ask

def test_the_page_needs_no_token_and_the_api_does(server):
    assert server.ask("GET", "/", headers={"Authorization": None})[0] == 200
    for given in (None, "Bearer ", "Bearer " + "0" * 32, "Basic " + server.token):
        for method, path in (("GET", "/api/start"), ("POST", "/api/jobs"), ("GET", "/api/jobs/1"), ("DELETE", "/api/jobs/1")):
            assert server.ask(method, path, "{}", {"Authorization": given})[0] == 401, (method, path, given)


def test_the_page_does_not_hold_the_token(server):
    for path in ("/", "/app.mjs", "/server.mjs"):
        assert server.token.encode() not in server.ask("GET", path)[2]


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "169.254.1.1"])
def test_a_name_of_another_host_is_refused(server, host):
    for path in ("/", "/api/start"):
        assert server.ask("GET", path, headers={"Host": host})[0] == 403


@pytest.mark.parametrize("host", ["localhost:9999", "127.0.0.1", "[::1]:8420"])
def test_a_tunnel_may_have_another_port(server, host):
    assert server.ask("GET", "/api/start", headers={"Host": host})[0] == 200


def test_a_server_at_every_address_has_the_name_of_each():
    everywhere = Server("--host", "0.0.0.0")
    name = socket.gethostname()
    assert everywhere.host == name, "what it prints can be opened from another machine"
    # All of 127.0.0.0/8 are addresses of this machine.
    for host, status in (("127.0.0.2", 200), (name, 200), (name.upper(), 200), ("localhost", 200), ("127.0.0.3", 403),
                         ("0.0.0.0", 403), ("evil.example", 403), ("", 403)):
        assert everywhere.ask("GET", "/api/start", headers={"Host": host}, at="127.0.0.2")[0] == status, host
    assert everywhere.stop() == 0


def test_a_server_at_one_address_has_no_other_name(server):
    assert server.host == "127.0.0.1"
    assert server.ask("GET", "/", headers={"Host": socket.gethostname()})[0] == 403


def test_a_page_of_another_origin_may_not_ask(server):
    here = f"127.0.0.1:{server.port}"
    for origin, status in (("http://evil.example", 403), ("null", 403), (f"https://{here}", 403), ("http://127.0.0.1:1", 403),
                           (f"http://{here}", 200)):
        assert server.ask("GET", "/api/start", headers={"Host": here, "Origin": origin})[0] == status, origin


def test_every_response_has_a_strict_policy(server):
    for path in ("/", "/app.css", "/api/start", "/nothing"):
        headers = server.ask("GET", path)[1]
        policy = headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';"), policy
        assert "unsafe" not in policy and "http:" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff" and headers["Referrer-Policy"] == "no-referrer"
        assert "Access-Control-Allow-Origin" not in headers


# ---- answers

def test_a_run_says_what_the_command_says(server, tmp_path):
    file = tmp_path / "scenario.json"
    file.write_text(json.dumps(SCENARIO))
    printed = subprocess.run([COMMAND, "run", str(file), "--json", "-"], capture_output=True, text=True, check=True)
    expected = json.loads(printed.stdout)
    state = server.run(SCENARIO)
    assert state["status"] == "done"
    result = state["answer"]["result"]
    assert result["step_time_s"] == expected["step_time_s"]
    for part in ("memory", "links", "breakdown_s", "mfu", "interval"):
        assert result[part] == expected[part], part


def test_shares_of_a_stage_sum_to_the_step_and_bars_lie_within_it(server):
    answer = server.run(SCENARIO)["answer"]
    step = answer["result"]["step_time_s"]
    assert len(answer["stages"]) == 1
    assert sum(answer["stages"][0]["shares"].values()) == pytest.approx(step, rel=1e-9)
    (lane,) = answer["pipeline"]["lanes"]
    assert len(lane["bars"]) > 60  # 32 microbatches, forward and backward
    for start, length, *_ in lane["bars"]:
        assert 0 <= start and start + length <= step * 1e9 + 2


def test_a_step_of_thousands_of_microbatches_sends_no_more_bars_than_can_be_seen(server):
    answer = server.run(changed(training__global_batch_size=65536))["answer"]
    assert answer["result"]["fold"]["operations"] > 500_000  # 16,384 microbatches
    (lane,) = answer["pipeline"]["lanes"]
    assert len(lane["bars"]) <= 12_000


def test_an_error_names_its_field(server):
    state = server.run(changed(parallelism__tensor=3))
    assert state["status"] == "failed" and state["error"]["kind"] == "input"
    assert any(problem["pointer"].startswith("/parallelism") for problem in state["error"]["problems"])


def test_neighbours_differ_in_one_size_and_are_what_runs_of_them_say(server):
    state = server.ended(server.post("neighbours", scenario=SCENARIO, seconds=20))
    assert state["status"] == "done" and state["answer"]["tried"] >= 8
    rows = state["rows"]
    assert len(rows) >= 5
    for row in rows:
        assert re.fullmatch(r"(tensor|pipeline|context|microbatch size|recompute|schedule|zero_stage) .+ -> .+", row["name"])
    row = next(row for row in rows if row["name"].startswith("microbatch size"))
    assert server.run(row["scenario"])["answer"]["result"]["step_time_s"] == row["step_time_s"]


def test_a_layout_is_found_for_a_model_and_nodes(server):
    state = server.ended(server.post("layout", model="llama3-8b", node="dgx_h100", nodes=2))
    run = server.run(state["answer"]["scenario"])["answer"]
    assert run["fits"] and run["gpus"] == 16


def test_a_part_of_a_node_is_refused(server):
    state = server.ended(server.post("layout", model="llama3-8b", node="dgx_h100", nodes=2.5))
    problem = state["error"]["problems"][0]
    assert (problem["pointer"], problem["problem"]) == ("/nodes", "2.5 is not a whole number")


def test_the_configuration_of_a_model_becomes_a_model(server):
    text = (TREE / "tests/scenarios/import/hf/llama3_8b.json").read_text()
    model = server.ended(server.post("model", text=text))["answer"]["model"]
    assert server.run(changed(model=model))["answer"]["result"]["step_time_s"] == \
        server.run(SCENARIO)["answer"]["result"]["step_time_s"]


def test_several_jobs_have_the_report_of_the_command(server, tmp_path):
    job = json.loads((TREE / "scenarios/llama3/llama3_8b_8xh100.json").read_text())
    jobs = {"cluster": {**job["cluster"], "nodes": 2},
            "jobs": [{"name": name, "scenario": job, "placement": "packed"} for name in ("a", "b")]}
    state = server.ended(server.post("jobs", jobs=jobs))
    (tmp_path / "jobs.json").write_text(json.dumps(jobs))
    subprocess.run([COMMAND, "jobs", "jobs.json", "--json", "report.json", "--html", "report.html"], cwd=tmp_path,
                   check=True, stdout=subprocess.DEVNULL)
    answer = state["answer"]
    assert answer.pop("sentence").startswith("The steps")
    assert answer == json.loads((tmp_path / "report.json").read_text())
    assert server.ask("GET", f"/api/jobs/{state['id']}/file")[2] == (tmp_path / "report.html").read_bytes()
    jobs["jobs"][0]["scenario"] = {**job, "cluster": {**job["cluster"], "nodes": 10**6}}
    refused = server.ended(server.post("jobs", jobs=jobs))
    assert refused["status"] == "failed" and "are more than" in json.dumps(refused["error"])


@pytest.mark.parametrize("kind, begins", [("page", b"<!doctype html>"), ("trace", b'{')])
def test_a_file_can_be_taken_along(server, kind, begins):
    state = server.ended(server.post(kind, scenario=SCENARIO))
    status, headers, data = server.ask("GET", f"/api/jobs/{state['id']}/file")
    assert status == 200 and headers["Content-Type"] == "application/octet-stream"
    assert (gzip.decompress(data) if kind == "trace" else data).startswith(begins)


def test_a_file_cannot_be_named(server, tmp_path):
    target = tmp_path / "written"
    server.ended(server.post("page", scenario=SCENARIO, file=str(target)))
    assert not target.exists()


def test_a_scenario_on_the_command_line_is_what_the_page_begins_with():
    own = Server("scenarios/llama3/llama3_8b_8xh100.json", "--set", "training.micro_batch_size=2")
    start = json.loads(own.ask("GET", "/api/start")[2])
    assert start["scenario"]["training"]["micro_batch_size"] == 2
    assert start["scenario"]["model"] == "llama3-8b"
    assert len(start["lists"]["models"]) > 20 and start["nodes"]["dgx_h100"]["gpus"] == 8
    assert own.stop() == 0


# ---- what it does not read, and what it does not compute

def test_no_file_outside_the_data_is_read(server, tmp_path):
    existing = tmp_path / "model.json"
    existing.write_text((TREE / "models/data/llama3-8b.json").read_text())
    missing = tmp_path / "missing.json"
    fields = ["model", "cluster__node", "parallelism__schedule", "parallelism__placement", "host"]
    for field in fields:
        told = []
        for file in (existing, missing, pathlib.Path("/etc/passwd.json"), pathlib.Path(os.path.relpath(existing, TREE))):
            state = server.run(changed(**{field: str(file)}))
            assert state["status"] == "failed", (field, file)
            text = json.dumps(state["error"])
            assert "lies outside the data folders" in text, (field, text)
            told.append(text.replace(str(file), "FILE"))
        assert told[0] == told[1], "whether a file exists is not told"
    state = server.run({**SCENARIO, "cluster": {"file": "/etc/passwd"}})
    assert "lies outside the data folders" in json.dumps(state["error"])
    shipped = server.run(changed(model=str(TREE / "models/data/llama3-8b.json")))
    assert shipped["status"] == "done", "a file of the data may be named"


def test_a_cluster_that_is_too_large_is_refused(server):
    state = server.run(changed(cluster__nodes=1_000_000, cluster__fabric={"kind": "fat_tree"}))
    assert state["status"] == "failed"
    assert state["error"]["problems"][0]["pointer"] == "/cluster/nodes"
    layout = server.ended(server.post("layout", model="llama3-8b", node="dgx_h100", nodes=1_000_000))
    assert layout["status"] == "failed" and "8000000 GPUs" in layout["error"]["problems"][0]["problem"]


@pytest.mark.parametrize("body, status", [
    ("", 400), ("{", 400), ("[]", 400), ("null", 400), ("\"run\"", 400), ("{}", 400), ('{"kind": 7}', 400),
    ('{"kind": "exec"}', 400), ("[" * 100_000, 400), ('{"kind": "run", "scenario": ' + "[" * 5000, 400),
    ("\xff\xfe", 400), ("x" * (5 << 20), 413)], ids=range(12))
def test_malformed_requests_are_refused(server, body, status):
    try:
        assert server.ask("POST", "/api/jobs", body.encode("latin1"))[0] == status
    except (BrokenPipeError, ConnectionResetError):
        assert status == 413  # the connection may be closed while a body that is too large is sent


@pytest.mark.parametrize("members", [
    {}, {"scenario": None}, {"scenario": []}, {"scenario": "x"}, {"scenario": {}}, {"scenario": {"model": {}}},
    {"scenario": {"cluster": {"nodes": -1}}}, {"scenario": {"model": "llama3-8b", "training": {"sequence_length": 1e300}}}])
def test_a_request_that_makes_no_sense_fails_alone(server, members):
    for kind in ("run", "neighbours", "search", "layout", "model"):
        state = server.ended(server.post(kind, **members))
        assert state["status"] == "failed" and state["error"]["kind"] == "input", (kind, state)


def test_only_json_is_taken(server):
    assert server.ask("POST", "/api/jobs", "kind=run", {"Content-Type": "application/x-www-form-urlencoded"})[0] == 415


def test_unknown_addresses_and_jobs_are_404(server):
    for path in ("/../../etc/passwd", "/app.mjs/..", "/api/jobs/999999", "/api/jobs/0x1", "/api/jobs/1/file/../.."):
        assert server.ask("GET", path)[0] == 404, path


def test_bytes_that_are_no_http_leave_the_server_alive(server):
    for text in (b"\x00" * 2000, b"GET\r\n\r\n", b"POST /api/jobs HTTP/1.1\r\nContent-Length: -5\r\n\r\n", b"A" * 100_000):
        with socket.create_connection(("127.0.0.1", server.port), timeout=5) as connection:
            try:
                connection.sendall(text)
                connection.shutdown(socket.SHUT_WR)
                connection.recv(1000)
            except OSError:  # the server may close the connection at any point
                pass
    assert server.run(SCENARIO)["status"] == "done"


# ---- many, slow and dying

def test_fifty_clients_each_get_their_own_answer(server):
    def asked(number):
        scenario = changed(training__global_batch_size=4 * (1 + number % 10))
        state = server.run(scenario, client=f"client {number}")
        return number, state["answer"]["result"]["scenario"]["training"]["global_batch_size"]

    with concurrent.futures.ThreadPoolExecutor(50) as pool:
        answers = dict(pool.map(asked, range(50)))
    assert answers == {number: 4 * (1 + number % 10) for number in range(50)}


WIDE = json.loads((TREE / "scenarios/llama3/llama3_70b_128xh100.json").read_text())  # of a long search
SLOW = json.loads((TREE / "scenarios/moe/deepseek_v3_2048xh800.json").read_text())  # seconds: ranks differ
SLOW["experts"] = {**SLOW.get("experts", {}), "routing": "zipf", "zipf_exponent": 0.5}


def test_the_next_run_of_a_page_replaces_the_last(server):
    slow = server.post("search", wait_ms=0, scenario=WIDE, client="other")  # not of this page
    first = server.post("run", wait_ms=0, scenario=SLOW, client="page")
    begin = time.monotonic()
    second = server.run(SCENARIO, client="page")
    assert second["status"] == "done" and time.monotonic() - begin < 5
    assert server.ended(first)["status"] == "cancelled"
    assert server.job(slow["id"])["status"] in ("waiting", "running")
    server.ask("DELETE", f"/api/jobs/{slow['id']}")
    assert server.ended(slow, 10)["status"] == "done", "a search that is ended answers with the best so far"


def test_a_search_tells_its_progress(server):
    state = server.post("search", wait_ms=0, scenario=SCENARIO)
    told = set()
    while state["status"] in ("waiting", "running"):
        state = server.job(state["id"], state["revision"], 1000)
        told.add(state["progress"])
    assert state["status"] == "done" and len(told) > 3
    best = state["answer"]["best"]
    assert len(best) > 1 and best == sorted(best, key=lambda row: row["step_time_s"])
    assert server.run(best[0]["scenario"])["answer"]["result"]["step_time_s"] == best[0]["step_time_s"]


def test_a_worker_that_dies_fails_its_job_alone(server):
    jobs = [server.post("run", wait_ms=0, scenario=SLOW, client=f"dies {number}") for number in range(2)]
    workers = server.workers()
    assert len(workers) == 4
    for pid in workers:
        os.kill(pid, signal.SIGKILL)
    states = [server.ended(job) for job in jobs]
    assert {state["status"] for state in states} <= {"failed", "done"}
    assert any("ended without an answer" in json.dumps(state.get("error", {})) for state in states)
    assert server.run(SCENARIO)["status"] == "done"


# ---- beginning and end

def test_ctrl_c_ends_the_server_and_all_that_it_started():
    own = Server()
    own.post("search", wait_ms=0, scenario=WIDE)
    workers = own.workers()
    folders = [path for path in pathlib.Path("/tmp").glob("trainyard-serve-*")]
    assert workers and folders
    assert own.stop() == 0
    late = time.monotonic() + 10
    while any(pathlib.Path(f"/proc/{pid}").exists() for pid in workers):
        assert time.monotonic() < late, "workers remain"
        time.sleep(0.05)
    assert len([path for path in pathlib.Path("/tmp").glob("trainyard-serve-*")]) < len(folders)


def test_a_port_that_is_taken_is_one_clear_error(server):
    done = subprocess.run([COMMAND, "serve", "--port", str(server.port)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and str(server.port) in done.stderr and "--port" in done.stderr


def test_a_host_that_is_not_this_machine_is_not_blamed_on_the_port():
    done = subprocess.run([COMMAND, "serve", "--host", "192.0.2.1"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and done.stdout == ""
    assert "trainyard: --host: 192.0.2.1 is no address of this machine" in done.stderr


def test_over_ssh_the_forwarding_is_said():
    environment = {**os.environ, "SSH_CONNECTION": "10.0.0.1 1 10.0.0.2 22"}
    process = subprocess.Popen([COMMAND, "serve"], stdout=subprocess.PIPE, text=True, env=environment)
    lines = [process.stdout.readline() for _ in range(4)]
    port = re.search(r":(\d+)/", lines[0])[1]
    assert f"ssh -N -L {port}:127.0.0.1:{port} {socket.gethostname()}" in lines[3]
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=20) == 0
