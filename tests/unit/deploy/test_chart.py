"""What is in deploy/: manifests against the schemas of Kubernetes, and against what penstock itself takes and does.

No Kubernetes and no container engine was at hand to run them.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from tests.unit.service.cluster.high_availability.kubernetes_objects import NAMESPACE, api_server

from penstock.common.configuration import Configuration
from penstock.service.cli.cluster import cluster
from penstock.service.cli.options import high_availability_in, settings_in
from penstock.service.cluster.high_availability.services import register_of

kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="`make setup` installs it")

ROOT = Path(__file__).parents[3]
CHART = ROOT / "deploy" / "helm" / "penstock"
MANIFESTS = ROOT / "deploy" / "kubernetes" / "penstock.yaml"
ENTRYPOINT = ROOT / "deploy" / "image" / "entrypoint"
HELM = shutil.which("helm") or shutil.which(ROOT / "build" / "bin" / "helm")
VERSIONS = ("1.30", "1.34")
VERBS = {"GET": "get", "POST": "create", "PUT": "update"}

needs_helm = pytest.mark.skipif(HELM is None, reason="without Helm: `make helm` builds it from its source, with Go")


def rendered(*settings: str) -> str:
    assert HELM is not None
    words = [word for setting in settings for word in ("--set", setting)]
    command = [HELM, "template", "penstock", str(CHART), "--namespace", NAMESPACE, "--kube-version", "1.30", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


def check(text: str) -> dict[str, Any]:
    """That each manifest is as its schema says. Returns them by kind."""
    found = {manifest["kind"]: manifest for manifest in yaml.safe_load_all(text)}
    for manifest in found.values():
        for version in VERSIONS:
            kubernetes_validate.validate(manifest, version, strict=True)
    return found


@functools.cache
def manifests() -> dict[str, Any]:
    return check(MANIFESTS.read_text(encoding="utf-8"))


def container(found: dict[str, Any]) -> dict[str, Any]:
    (only,) = found["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert isinstance(only, dict)
    return only


def test_manifests_are_valid() -> None:
    """`kubectl apply` would refuse them, or take them without what is misspelt."""
    assert set(manifests()) == {
        "ConfigMap", "Deployment", "PersistentVolumeClaim", "Role", "RoleBinding", "ServiceAccount"
    }  # fmt: skip


def test_a_mistake_is_found() -> None:
    """The test above would say nothing."""
    text = MANIFESTS.read_text(encoding="utf-8")
    for mistake in ("replicas: one", "replicaz: 1"):
        with pytest.raises(kubernetes_validate.ValidationError):
            check(text.replace("replicas: 1", mistake))


@needs_helm
def test_manifests_are_those_of_the_chart() -> None:
    """Who installs without Helm would have an older cluster. `make manifests` writes them."""
    assert MANIFESTS.read_text(encoding="utf-8") == rendered()


@needs_helm
def test_the_chart_with_other_values() -> None:
    """A value that is in the file, and documented, would have no effect, or give no manifests."""
    standing_by = check(rendered("replicas=2", "storage.existingClaim=mine", "leaderElection.leaseDuration=9 s"))
    assert standing_by["Deployment"]["spec"]["replicas"] == 2
    assert "PersistentVolumeClaim" not in standing_by
    assert any(word.endswith("claimName=mine") for word in container(standing_by)["args"])
    assert "lease-duration: 9 s" in standing_by["ConfigMap"]["data"]["ha.yaml"]
    local = check(rendered("executors=false", "slots=4", "serviceAccount.create=false", "serviceAccount.name=other"))
    assert not [word for word in container(local)["args"] if "spark.kubernetes" in word or "--master" in word]
    assert local["Deployment"]["spec"]["template"]["spec"]["serviceAccountName"] == "other"
    assert not {"Role", "RoleBinding", "ServiceAccount"} & local.keys()
    placed = check(rendered("nodeSelector.disk=ssd", "podAnnotations.a=b", "storage.className=nfs", "image.tag=2"))
    assert placed["Deployment"]["spec"]["template"]["spec"]["nodeSelector"] == {"disk": "ssd"}
    assert placed["PersistentVolumeClaim"]["spec"]["storageClassName"] == "nfs"
    assert container(placed)["image"] == "registry.example/penstock:2"


def test_the_command_of_the_pod_is_one_of_penstocks() -> None:
    """The pod would end at once with an error of its arguments, and be started again, without end."""
    program, group, name, *words = container(manifests())["args"]
    assert (program, group, name) == ("penstock", "cluster", "start")
    command = typer.main.get_group(cluster).commands["start"]
    own = [word for word in words if not word.startswith("--conf-file=")]
    assert len(own) == len(words) - 1
    given = command.make_context("start", own).params
    assert (given["slots"], given["foreground"], given["rest_port"]) == (16, True, "8081")
    assert all(setting.startswith("spark.") and "=" in setting for setting in given["settings"])


def test_the_pod_may_do_what_an_election_does(tmp_path: Path) -> None:
    """A cluster would never have a leader: the service account lacks a right, or the file names no cluster."""
    (tmp_path / "ha.yaml").write_text(manifests()["ConfigMap"]["data"]["ha.yaml"])
    with api_server() as server:
        asked = set()
        handle = server.store.handle

        def seen(method: str, plural: str, *others: Any) -> Any:
            asked.add((plural, VERBS[method]))
            return handle(method, plural, *others)

        server.store.handle = seen  # type: ignore[method-assign]
        given = high_availability_in(settings_in(tmp_path / "ha.yaml"))
        register = register_of(Configuration.from_dict(given | {"high-availability.kubernetes.api-server": server.url}))
        assert register.look() == 1 and register.claim(1)
        register.confirm("http://127.0.0.1:8081")
        register.pointers().put("a", "state-1-1")
        register.close()
    allowed = {
        (plural, verb)
        for rule in manifests()["Role"]["rules"]
        for plural in rule["resources"]
        for verb in rule["verbs"]
    }
    assert asked <= allowed
    assert {plural for plural, _ in asked} == {"leases", "configmaps"}


def test_parts_belong_together() -> None:
    """The pod would wait for a volume or an account of another name for ever."""
    found = manifests()
    pod = found["Deployment"]["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == found["ServiceAccount"]["metadata"]["name"]
    assert found["RoleBinding"]["roleRef"]["name"] == found["Role"]["metadata"]["name"]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert volumes["shared"]["persistentVolumeClaim"]["claimName"] == found["PersistentVolumeClaim"]["metadata"]["name"]
    assert volumes["configuration"]["configMap"]["name"] == found["ConfigMap"]["metadata"]["name"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container(found)["volumeMounts"]}
    assert set(mounts) == set(volumes)
    assert f"storageDir: {mounts['shared']}/" in found["ConfigMap"]["data"]["ha.yaml"]
    labels = found["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert found["Deployment"]["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_the_image_starts_an_executor(tmp_path: Path) -> None:
    """All executors would end at once, and jobs wait for slots that never come."""
    java = tmp_path / "java"
    java.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    java.chmod(0o755)
    given = {
        "DRIVER_URL": "spark://CoarseGrainedScheduler@10.0.0.1:7078", "EXECUTOR_ID": "3", "EXECUTOR_CORES": "4",
        "EXECUTOR_MEMORY": "2048m", "APPLICATION_ID": "spark-1", "EXECUTOR_POD_IP": "10.0.0.2",
        "RESOURCE_PROFILE_ID": "0", "EXECUTOR_POD_NAME": "orders-exec-3", "CONF_DIR": "/opt/spark/conf",
        "JAVA_OPT_0": "-Dspark.a=b c", "JAVA_OPT_1": "-XX:+UseG1GC", "HOME": "/spark",
    }  # fmt: skip
    environment = {f"SPARK_{name}": value for name, value in given.items()}
    environment["PATH"] = f"{tmp_path}:{os.environ['PATH']}"

    def said(*words: str) -> list[str]:
        run = subprocess.run(
            [ENTRYPOINT, *words], env=environment, capture_output=True, text=True, check=True, timeout=60
        )
        return run.stdout.splitlines()

    assert said("executor") == [
        "-Dspark.a=b c", "-XX:+UseG1GC", "-Xms2048m", "-Xmx2048m", "-cp", "/opt/spark/conf:/spark/jars/*",
        "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend",
        "--driver-url", "spark://CoarseGrainedScheduler@10.0.0.1:7078", "--executor-id", "3", "--cores", "4",
        "--app-id", "spark-1", "--hostname", "10.0.0.2", "--resourceProfileId", "0", "--podName", "orders-exec-3",
    ]  # fmt: skip
    assert said("echo", "a b") == ["a b"]
