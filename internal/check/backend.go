package check

import (
	"fmt"
	"math"
	"runtime"
	"sync"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/backend"
	"github.com/galley-ml/galley/internal/pass"
	"github.com/galley-ml/galley/internal/safetensors"
	"github.com/galley-ml/galley/op"
)

// bf16Tolerance is the relative error of 16-bit ops against f64 on the same operands.
const bf16Tolerance = 2e-2

// executeOn runs f on arrays as a program of a backend.
func executeOn(b galley.Backend, args []array.Array, f func([]*op.Tensor) []*op.Tensor) ([]array.Array,
	error) {
	types := make([]op.Type, len(args))
	for i, a := range args {
		types[i] = op.Type{DType: a.DType(), Shape: a.Shape()}
	}
	p, err := galley.Trace("case", types, f)
	if err == nil {
		p, err = pass.Optimize(p)
	}
	if err != nil {
		return nil, err
	}
	exe, err := b.Compile(p, galley.Options{})
	if err != nil {
		return nil, err
	}
	defer exe.Close()
	in := make([]backend.Buffer, len(args))
	for i, a := range args {
		if in[i], err = b.Put(a); err != nil {
			return nil, err
		}
		defer in[i].Free()
	}
	results, err := exe.Run(in)
	if err != nil {
		return nil, err
	}
	out := make([]array.Array, len(results))
	for i, r := range results {
		if out[i], err = r.Read(); err != nil {
			return nil, err
		}
		r.Free()
	}
	return out, nil
}

// caseVerdict is the faults of a case, or a note on its accuracy.
type caseVerdict struct {
	faults []string
	note   string
}

// checkAll checks all cases; on a backend, whose compiler is slow, several at once.
func checkAll(cases []opCase, c OpsConfig, file *safetensors.File) []caseVerdict {
	out := make([]caseVerdict, len(cases))
	slots := make(chan struct{}, 1)
	if c.Backend != nil {
		slots = make(chan struct{}, runtime.NumCPU())
	}
	var wait sync.WaitGroup
	for i := range cases {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			out[i].faults, out[i].note = cases[i].checkOn(c, file)
		})
	}
	wait.Wait()
	return out
}

// checkOn runs one case on the device or backend of c.
func (oc *opCase) checkOn(c OpsConfig, file *safetensors.File) (faults []string, note string) {
	if c.Backend == nil {
		return oc.check(c.Device, file)
	}
	for _, dtype := range []array.DType{array.F64, array.F32, array.BF16} {
		e, limit, err := oc.runOn(c, file, dtype)
		switch {
		case err != nil:
			faults = append(faults, fmt.Sprintf("%v: %v", dtype, err))
		case !(e.err <= limit):
			faults = append(faults, fmt.Sprintf("%v: %s: relative error %.3g, want ≤ %.0e", dtype, e.what, e.err,
				limit))
		default:
			note += fmt.Sprintf("%v %.1e  ", dtype, e.err)
		}
	}
	return faults, note
}

// runOn compares f64 and f32 with the recorded results, and 16 bits with f64 on 16-bit operands.
func (oc *opCase) runOn(c OpsConfig, file *safetensors.File, dtype array.DType) (worstError, float64, error) {
	args, f, err := oc.prepare(c.Device, file, dtype)
	if err != nil {
		return worstError{}, 0, err
	}
	got, err := executeOn(c.Backend, args, f)
	if err != nil {
		return worstError{}, 0, err
	}
	if !dtype.IsHalf() {
		e, err := oc.compare(file, got)
		return e, opTolerance[dtype], err
	}
	want, err := oc.widened(c.Device, args, f)
	if err != nil {
		return worstError{}, 0, err
	}
	return oc.compareFirst(got, want), bf16Tolerance, nil
}

// widened computes the results in f64 on the host from the same numbers.
func (oc *opCase) widened(d *galley.Device, args []array.Array,
	f func([]*op.Tensor) []*op.Tensor) ([]array.Array, error) {
	wide := make([]array.Array, len(args))
	for i, a := range args {
		wide[i] = a
		if a.DType().IsFloat() {
			w, err := galley.Read(op.Cast(d.NewSession().Tensor(a), array.F64))
			if err != nil {
				return nil, err
			}
			wide[i] = w
		}
	}
	return execute(d, "traced", wide, f)
}

// compareFirst returns the largest error of outputs and gradients. Second derivatives are excluded: they are
// differences of nearly equal numbers, of which 16 bits keep few digits.
func (oc *opCase) compareFirst(got, want []array.Array) worstError {
	worst := worstError{}
	for i := range len(oc.Outputs) + len(oc.Grads) {
		if e := relativeError(got[i], want[i]); e > worst.err || math.IsNaN(e) {
			worst = worstError{fmt.Sprintf("result %d", i), e}
		}
	}
	return worst
}
