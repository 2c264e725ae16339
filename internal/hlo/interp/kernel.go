package interp

import (
	"bytes"
	"fmt"
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ptx"
	"github.com/galley-ml/galley/internal/triton"
)

// kernelCall runs the kernel of a custom call. Its pointers are the operands, which it must not change, then
// the results.
func kernelCall(o *hlo.Operation, in []tensor) []tensor {
	config := o.Attr("backend_config").(hlo.DictAttr)
	args := make([]array.Array, 0, len(in)+len(o.Out))
	for i, t := range in {
		if dtypeOf(t.Elem) == array.Invalid {
			fail("%s: operand %d is %v: no kernel takes it", o.Name, i, t.TensorType)
		}
		args = append(args, t.array())
	}
	for i, t := range o.Out {
		if dtypeOf(t.Elem) == array.Invalid {
			fail("%s: result %d is %v: no kernel gives it", o.Name, i, t)
		}
		args = append(args, fresh(t))
	}
	run := runTriton
	if o.Attr("call_target_name").(hlo.TextAttr) == hlo.PTXTarget {
		run = runPTX
	}
	if err := run(config, args); err != nil {
		fail("%s: %v", o.Name, err)
	}
	for i, t := range in {
		if !bytes.Equal(args[i].Bytes(), t.array().Bytes()) {
			fail("%s: the kernel writes to operand %d: want only results", o.Name, i)
		}
	}
	out := make([]tensor, len(o.Out))
	for i := range out {
		out[i] = fromArray(args[len(in)+i])
	}
	return out
}

func runTriton(config hlo.DictAttr, args []array.Array) error {
	var grid [3]int
	for i, name := range []string{"grid_x", "grid_y", "grid_z"} {
		n, err := hlo.IntsOf(config.Field(name))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		grid[i] = n[0]
	}
	return triton.Run(config.Field("ir").(hlo.TextAttr).Text(), grid, args)
}

// runPTX runs a PTX kernel; its scratch memory is one more array.
func runPTX(config hlo.DictAttr, args []array.Array) error {
	text := func(name string) string { return config.Field(name).(hlo.TextAttr).Text() }
	k := ptx.Kernel{Name: text("name"), Text: text("kernel_data")}
	for name, to := range map[string]*int{"grid_x": &k.Blocks, "block_x": &k.Threads,
		"shared_mem_bytes": &k.Shared} {
		n, err := hlo.IntsOf(config.Field(name))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		*to = n[0]
	}
	return ptx.Run(k, args)
}

// fresh returns an uninitialized array, as on a device: it is not zero, so that a kernel cannot rely on
// that.
func fresh(t hlo.TensorType) array.Array {
	a := array.New(dtypeOf(t.Elem), t.Shape...)
	for i := range a.Len() {
		if isFloat(t.Elem) {
			a.Set(i, math.NaN())
		} else {
			a.Set(i, -77)
		}
	}
	return a
}
