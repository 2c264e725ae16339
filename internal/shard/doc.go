// Package shard decides the layout of every tensor of a program on a mesh.
//
// Its one idea: an op is split by axes on its factors, and everything a tensor can say is which axes those
// should be. Forward and Backward decide for one op: operands or results name axes, one legal assignment
// grants what it can, and the Specs on the other side follow. Infer decides for a whole program: annotations
// spread from value to value through the ops' factors, in both directions, until nothing changes.
//
//	s, _ := shard.Forward(matmul, m, in, out, []mesh.Spec{x, w})
//	s.In      // the layout x and w must have: what differs from what they are is a reshard
//	s.Out     // the layout the product then has, partial sums included
//	s.Reasons // why
//
// What one op grants, in order:
//
//  1. Of two operands that split one factor differently, the larger tensor leads, then the first; the other's
//     axes follow where they are free. A list that only goes on where the other ends is no difference. Where
//     something is not granted, each tensor is tried as the leader, and the way that moves the fewest bytes
//     is taken.
//  2. Of two factors that want one axis, the first in the rule wins. Rules name batch dims first and summed
//     dims before the dims of the right side, so that batches stay split and weights are gathered.
//  3. An axis that splits a factor is not also partial: an operand that holds partial sums along it is
//     reduced.
//  4. Partial sums and means pass through an op that is linear in the operand (op.Multilinear); elsewhere
//     they are reduced.
//
// Infer spreads annotations as Shardy does. A round visits the ops until nothing changes; there are two
// rounds, basic and aggressive, for each level, and all levels for each priority that annotations have:
//
//	basic         what no tensor of an op objects to: lists of axes that agree, on dims that are open
//	aggressive    where factors want the same axis, that of the largest tensor wins, in element-wise ops then the one split
//	              most, then that of the first tensor; results choose before operands
//	levels        ops that pass dims on and whose operands have no other user; all such ops; factors that cost nothing to
//	              split; all but broadcasts forward; all
//
// What a round decides stays. Each decision is kept with the value, op and line that it came from.
//
// Files, from the ground up: ref is lists of axes by number; rule is how shardings spread through an op, and
// compose through several; graph, project, spread and rounds are inference; step and partial are one op;
// infer ties them to a program; sums decides where partial sums are reduced.
package shard
