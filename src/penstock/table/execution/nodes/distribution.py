"""Nodes that carry rows: Exchange, Union, DropUpdateBefore."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.engine.plan.transformations import PartitionTransformation, Transformation, UnionTransformation
from penstock.engine.runtime.network.partitioners import GlobalPartitioner
from penstock.table.execution.registry import translates
from penstock.table.execution.translation import Translation
from penstock.table.operators.rows.drop_update_before import DropUpdateBeforeOperator
from penstock.table.operators.rows.rename import RenameOperator
from penstock.table.planner.nodes.row_nodes import DropUpdateBefore, Exchange, Union


@translates(Exchange)
def exchange(translation: Translation, node: Exchange, inputs: Sequence[Transformation]) -> Transformation:
    """Translate an Exchange, which is nothing if the rows are where it would send them."""
    (stream,) = inputs
    # Behind a local aggregate the columns are its own.
    translation.gives(node, translation.input(node))
    distribution = node.input_properties[0].required_distribution
    if distribution.type == "HASH":
        if translation.is_distributed(node, distribution.keys):
            return stream
        return translation.hashed(stream, translation.columns(node), distribution.keys)
    if distribution.type == "SINGLETON":
        return PartitionTransformation(translation.program.next_id(), stream, GlobalPartitioner())
    raise translation.unsupported(f"the distribution {distribution.type} is not supported")


@translates(Union)
def union(translation: Translation, node: Union, inputs: Sequence[Transformation]) -> Transformation:
    """Translate a Union. Its inputs may have other names and nullability than the first one."""
    given = translation.columns(node)
    streams = []
    for place, (stream, origin) in enumerate(zip(inputs, translation.plan.inputs_of(node), strict=True)):
        received = translation.columns(origin)
        if received.schema != given.schema:
            stream = translation.operator(node, RenameOperator(received, given), [stream], role=f"input{place}")
        streams.append(stream)
    return UnionTransformation(translation.program.next_id(), streams)


@translates(DropUpdateBefore)
def drop_update_before(
    translation: Translation, node: DropUpdateBefore, inputs: Sequence[Transformation]
) -> Transformation:
    """Translate a DropUpdateBefore."""
    columns = translation.input(node)
    translation.gives(node, columns)
    return translation.operator(node, DropUpdateBeforeOperator(columns), inputs)
