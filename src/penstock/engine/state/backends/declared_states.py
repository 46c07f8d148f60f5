"""The keyed state of a running operator for a function that is about to replace the operator's function."""

from __future__ import annotations

from typing import Any

from penstock.api.state.descriptors import StateDescriptor
from penstock.common.errors import CheckpointError, ProgramError
from penstock.engine.state.backends.backend import BackendStateStore, KeyedStateBackend
from penstock.engine.state.schema import check_schema, schema_of


class DeclaredStates(BackendStateStore):
    """Gives access to the existing states, and checks that the new function declares them the same way.

    New functions in descriptors, for example in a ReducingStateDescriptor, are called from `take_effect` on.
    """

    def __init__(self, backend: KeyedStateBackend) -> None:
        super().__init__(backend, namespaced=False)
        self._declared: dict[str, StateDescriptor] = {}
        self._added: list[str] = []
        """The declared states that no earlier function declared."""

    def _get(self, descriptor: StateDescriptor) -> Any:
        """Return the state. Raises ProgramError or CheckpointError if it exists with another kind or type."""
        name = descriptor.get_name()
        schema, known = self._backend.schemas.get(name), self._backend.declared.get(name)
        if schema is not None:
            try:
                check_schema(name, str(schema), schema_of(descriptor))
            except CheckpointError as error:
                raise ProgramError(str(error)) from None
        if known is not None and _ttl(known) != _ttl(descriptor):
            raise ProgramError(f"cannot change the time to live of the state '{name}' while the job runs")
        self._declared[name] = descriptor
        if known is None and name not in self._added:
            self._added.append(name)
        return super()._get(descriptor)

    def check_all_are_used(self, operator: str) -> None:
        """Raise ProgramError if the old function declared a state that the new one does not declare."""
        unused = sorted(self._backend.schemas.keys() & self._backend.declared.keys() - self._declared.keys())
        if unused:
            names = ", ".join(f"'{name}'" for name in unused)
            raise ProgramError(
                f"operator '{operator}' has state that its new function does not request in open(): {names}. It would "
                "stay unused. To accept that: --allow-non-restored-state"
            )

    def take_effect(self) -> None:
        """Use the new declarations: the new function has replaced the old one."""
        for descriptor in self._declared.values():
            self._backend.redeclare(descriptor)

    def forget(self) -> None:
        """Remove the states that only the new function declared, since it does not replace the old one."""
        for name in reversed(self._added):
            self._backend.undeclare(name)


def _ttl(descriptor: StateDescriptor) -> tuple[Any, ...] | None:
    config = descriptor.ttl_config
    if config is None:
        return None
    how = config.get_update_type(), config.get_state_visibility(), config.get_cleanup_strategies().cleans_up
    return config.get_ttl().to_milliseconds(), *how
