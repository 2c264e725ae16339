package check

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/check/report"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/safetensors"
	"github.com/galley-ml/galley/internal/strict"
	"github.com/galley-ml/galley/op"
)

// OpsConfig describes how ops are checked.
type OpsConfig struct {
	Device *galley.Device
	// Backend, if set, runs the cases compiled instead of Device, in f64, f32 and bf16; Device then computes the
	// reference for bf16.
	Backend galley.Backend
	// Verbose prints the cases that pass, too.
	Verbose bool
}

// opCase is one entry of ops.json. Strings are names in ops.safetensors.
type opCase struct {
	ID         string          `json:"id"`
	Op         string          `json:"op"`
	Attrs      json.RawMessage `json:"attrs"`
	Inputs     []string        `json:"inputs"`
	Outputs    []string        `json:"outputs"`
	Cotangents []indexed       `json:"cotangents"`
	Grads      []indexed       `json:"grads"`
	HVP        [][2]string     `json:"hvp"`
}

// indexed is a pair [index, name].
type indexed struct {
	Index int
	Name  string
}

// UnmarshalJSON reads the pair.
func (x *indexed) UnmarshalJSON(b []byte) error {
	pair := []any{&x.Index, &x.Name}
	if err := json.Unmarshal(b, &pair); err != nil {
		return err
	}
	if len(pair) != 2 || x.Name == "" {
		return fmt.Errorf("got %s, want a pair of a number and a name", b)
	}
	return nil
}

// Ops runs every case of a directory with ops.json and ops.safetensors, eagerly and traced, in f64 and f32.
func Ops(w io.Writer, dir string, c OpsConfig) (*report.Report, error) {
	text, err := strict.ReadFile(filepath.Join(dir, "ops.json"), strict.Data)
	if err != nil {
		return nil, err
	}
	var cases []opCase
	if err := json.Unmarshal(text, &cases); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, "ops.json"), err)
	}
	file, err := safetensors.Open(filepath.Join(dir, "ops.safetensors"))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	r := report.New(w, c.Verbose)
	for i, v := range checkAll(cases, c, file) {
		oc := cases[i]
		r.Add(fmt.Sprintf("%s (%s %s)", oc.ID, oc.Op, oc.Attrs), v.faults, v.note)
	}
	r.Last()
	return r, nil
}

// tolerances of the two dtypes, as relative errors in norm.
var opTolerance = map[array.DType]float64{array.F64: 1e-9, array.F32: 2e-5}

// check runs one case in both modes and dtypes.
func (oc *opCase) check(d *galley.Device, file *safetensors.File) (faults []string, note string) {
	worst := map[array.DType]float64{}
	for _, dtype := range []array.DType{array.F64, array.F32} {
		for _, mode := range []string{"eager", "traced"} {
			e, err := oc.run(d, file, dtype, mode)
			switch {
			case err != nil:
				faults = append(faults, fmt.Sprintf("%v %s: %v", dtype, mode, err))
			case e.err > opTolerance[dtype]:
				faults = append(faults, fmt.Sprintf("%v %s: %s: relative error %.3g, want ≤ %.0e", dtype, mode, e.what,
					e.err, opTolerance[dtype]))
			default:
				worst[dtype] = max(worst[dtype], e.err)
			}
		}
	}
	return faults, fmt.Sprintf("f64 %.1e  f32 %.1e", worst[array.F64], worst[array.F32])
}

// worstError is the largest error of a case and the result that it is of.
type worstError struct {
	what string
	err  float64
}

// run computes everything that the case records and compares.
func (oc *opCase) run(d *galley.Device, file *safetensors.File, dtype array.DType, mode string) (worstError,
	error) {
	args, f, err := oc.prepare(d, file, dtype)
	if err != nil {
		return worstError{}, err
	}
	results, err := execute(d, mode, args, f)
	if err != nil {
		return worstError{}, err
	}
	return oc.compare(file, results)
}

// compare compares results with the recorded ones.
func (oc *opCase) compare(file *safetensors.File, results []array.Array) (worstError, error) {
	names := oc.resultNames()
	if len(results) != len(names) {
		return worstError{}, fmt.Errorf("got %d results, want %d", len(results), len(names))
	}
	worst := worstError{}
	for i, name := range names {
		want, err := file.Read(name)
		if err != nil {
			return worst, err
		}
		if !results[i].Shape().Equal(want.Shape()) {
			return worst, fmt.Errorf("%s: got shape %v, want %v", name, results[i].Shape(), want.Shape())
		}
		if e, at := caseError(results[i], want); e > worst.err {
			worst = worstError{name + at, e}
		}
	}
	return worst, nil
}

// execute runs f on arrays eagerly or as a compiled program.
func execute(d *galley.Device, mode string, args []array.Array,
	f func([]*op.Tensor) []*op.Tensor) ([]array.Array, error) {
	if mode == "traced" {
		types := make([]op.Type, len(args))
		for i, a := range args {
			types[i] = op.Type{DType: a.DType(), Shape: a.Shape()}
		}
		p, err := galley.Trace("case", types, f)
		if err != nil {
			return nil, err
		}
		e, err := galley.Compile(d, p, galley.Options{})
		if err != nil {
			return nil, err
		}
		return e.Run(args)
	}
	s := d.NewSession()
	xs := make([]*op.Tensor, len(args))
	for i, a := range args {
		xs[i] = s.Tensor(a).Track()
	}
	var out []array.Array
	for _, y := range f(xs) {
		a, err := cpu.Read(y)
		if err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	return out, nil
}
