package cpu

import (
	"fmt"
	"math"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// NaNError reports a NaN in the result of an op whose operands have none.
type NaNError struct {
	Type    ir.Type
	Element int
}

func (e *NaNError) Error() string {
	return fmt.Sprintf("it is the first to make NaN: element %d of its result %v", e.Element, e.Type)
}

// DetectNaN returns the same device in a mode that stops a computation at the first op that produces a NaN.
func (d *Device) DetectNaN() *Device {
	return &Device{pool: d.pool, comm: d.comm, watch: d.watch, at: d.at, detect: true}
}

// checkArgs returns an error if a program's arguments have NaN: then none of its ops is the first to produce
// one.
func (r *run) checkArgs() error {
	for i, p := range r.e.f.Params() {
		if at := firstNaN(r.params[i]); at >= 0 {
			return fmt.Errorf("run %s: argument %d %q is given with NaN: element %d of %v", r.e.f.Name(), i,
				p.Name(), at, p.Type())
		}
	}
	return nil
}

// checkNaN returns an error if a node's results have NaN. All earlier results have none.
func checkNaN(out []array.Array) error {
	for _, a := range out {
		if at := firstNaN(a); at >= 0 {
			return &NaNError{ir.TypeOf(a), at}
		}
	}
	return nil
}

// evalDetecting runs an op and looks for NaN in its results. If a fused loop produces one it is run again op
// by op, to find the op: its operands are kept for that, since results may overwrite their memory.
func (r *run) evalDetecting(o op.Op, in, out []array.Array) error {
	body, fused := op.FusedBody(o)
	kept := in
	if fused {
		kept = make([]array.Array, len(in))
		for i, a := range in {
			kept[i] = a.Clone()
		}
	}
	op.Run(r.env, o, in, out)
	err := checkNaN(out)
	if !fused {
		return err
	}
	if inner := firstNaNNode(r.device, body, kept); inner != nil {
		return inner
	}
	return err
}

// firstNaNNode returns the error for the first node of a body that produces NaN.
func firstNaNNode(d *Device, body *ir.Func, args []array.Array) error {
	values := make([]array.Array, body.NumValues())
	for i, p := range body.Params() {
		values[p.ID()] = args[i]
	}
	for _, n := range body.Nodes() {
		in, types := make([]array.Array, len(n.In())), make([]ir.Type, len(n.Out()))
		for i, v := range n.In() {
			in[i] = values[v.ID()]
		}
		for i, v := range n.Out() {
			types[i] = v.Type()
		}
		out, err := d.Compute(n.Op().(op.Op), in, types)
		if err == nil {
			err = checkNaN(out)
		}
		if err != nil {
			return &ir.Error{Pos: n.Pos(), Op: n.Op().Name(), Err: err}
		}
		for i, v := range n.Out() {
			values[v.ID()] = out[i]
		}
	}
	return nil
}

// checkNewNaN is like made if operands may have NaN: then it was not this op.
func checkNewNaN(in, out []array.Array) error {
	if slices.ContainsFunc(in, func(a array.Array) bool { return firstNaN(a) >= 0 }) {
		return nil
	}
	return checkNaN(out)
}

// firstNaN returns the index of the first NaN; -1 if there is none.
func firstNaN(a array.Array) int {
	switch a.DType() {
	case array.F32:
		return slices.IndexFunc(array.Data[float32](a), func(x float32) bool { return x != x })
	case array.F64:
		return slices.IndexFunc(array.Data[float64](a), math.IsNaN)
	case array.BF16:
		return slices.IndexFunc(array.Data[array.BFloat16](a),
			func(x array.BFloat16) bool { return x&0x7fff > 0x7f80 })
	case array.F16:
		return slices.IndexFunc(array.Data[array.Float16](a),
			func(x array.Float16) bool { return x&0x7fff > 0x7c00 })
	}
	return -1
}
