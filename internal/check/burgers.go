package check

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/check/report"
	"github.com/galley-ml/galley/internal/safetensors"
	"github.com/galley-ml/galley/internal/strict"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

// burgersTolerance is the relative error allowed in f64.
const burgersTolerance = 1e-8

// burgersReference is burgers.json.
type burgersReference struct {
	Nu        float64   `json:"nu"`
	LR        float64   `json:"lr"`
	Optimizer string    `json:"optimizer"`
	Losses    []float64 `json:"losses"`
	// Activation is the activation between layers: tanh if it is omitted.
	Activation string `json:"activation"`
}

// activations are those that burgers.json may name.
var activations = map[string]nn.Activation{
	"": op.Tanh, "tanh": op.Tanh, "sin": op.Sin, "sigmoid": op.Sigmoid, "silu": op.SiLU, "softplus": op.Softplus,
	"gelu": func(x *op.Tensor) *op.Tensor { return op.GELU(x, "none") },
}

// Burgers trains a physics-informed network for Burgers' equation: its loss contains first and second
// derivatives of the network, and gradients go through them.
func Burgers(w io.Writer, dir string, d *galley.Device) (*report.Report, error) {
	path := filepath.Join(dir, "burgers.json")
	text, err := strict.ReadFile(path, strict.Data)
	if err != nil {
		return nil, err
	}
	var ref burgersReference
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&ref); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	act, ok := activations[ref.Activation]
	if !ok {
		return nil, fmt.Errorf("%s: activation %q: want one of %q", path, ref.Activation,
			slices.Sorted(maps.Keys(activations))[1:])
	}
	if ref.Optimizer != "Adam" {
		return nil, fmt.Errorf("%s: optimizer %q: want Adam", path, ref.Optimizer)
	}
	file, err := safetensors.Open(filepath.Join(dir, "burgers.safetensors"))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	b := &burgers{ref: ref, file: file, d: d, r: report.New(w, false)}
	net := network{act}
	for _, way := range []burgersWay{{"", net.fields}, {"series ", net.fieldsForward}} {
		for _, mode := range []galley.Mode{galley.Eager, galley.Static} {
			if err := b.run(way, mode); err != nil {
				return nil, err
			}
		}
	}
	b.r.Last()
	return b.r, nil
}

// burgersWay is a method to compute the field u and its derivatives ux, ut and uxx.
type burgersWay struct {
	name   string
	fields func(params []*nn.Param, xt *op.Tensor) (u, ux, ut, uxx *op.Tensor)
}

type burgers struct {
	ref  burgersReference
	file *safetensors.File
	d    *galley.Device
	r    *report.Report
}

// layers returns how many weight matrices the file holds.
func (b *burgers) layers() int {
	n := 0
	for {
		if _, _, ok := b.file.Type(fmt.Sprintf("w%d", n)); !ok {
			return n
		}
		n++
	}
}

// params returns the weights, then the biases.
func (b *burgers) params(s *galley.Session) ([]*nn.Param, error) {
	var params []*nn.Param
	for _, kind := range []string{"w", "b"} {
		for i := range b.layers() {
			name := fmt.Sprint(kind, i)
			a, err := b.file.Read(name)
			if err != nil {
				return nil, err
			}
			v := op.Cast(s.Tensor(a), array.F64)
			params = append(params, &nn.Param{Name: name, Type: v.Type(), Value: v.Track()})
		}
	}
	return params, nil
}

// network is a plain MLP, with an activation between its layers.
type network struct{ act nn.Activation }

// at returns the field u at points xt [n,2].
func (net network) at(params []*nn.Param, xt *op.Tensor) *op.Tensor {
	n := len(params) / 2
	h := xt
	for i := range n {
		h = op.LinearT(h, params[i].Value, params[n+i].Value)
		if i < n-1 {
			h = net.act(h)
		}
	}
	return h
}

// fields returns u, its first derivatives and the second in x, each [n,1], by gradients of gradients.
func (net network) fields(params []*nn.Param, xt *op.Tensor) (u, ux, ut, uxx *op.Tensor) {
	u = net.at(params, xt)
	first := galley.Grad(op.Sum(u), xt)[0]
	ux, ut = op.Narrow(first, 1, 0, 1), op.Narrow(first, 1, 1, 2)
	uxx = op.Narrow(galley.Grad(op.Sum(ux), xt)[0], 1, 0, 1)
	return u, ux, ut, uxx
}

// fieldsForward returns the same by Taylor series.
func (net network) fieldsForward(params []*nn.Param, xt *op.Tensor) (u, ux, ut, uxx *op.Tensor) {
	d := galley.Derivatives(func(x *op.Tensor) *op.Tensor { return net.at(params, x) }, xt, "", "x", "t", "xx")
	return d[0], d[1], d[2], d[3]
}

// loss returns the mean square of the equation's residual.
func (b *burgers) loss(way burgersWay, params []*nn.Param, xt *op.Tensor) *op.Tensor {
	u, ux, ut, uxx := way.fields(params, xt)
	rest := op.Sub(op.Add(ut, op.Mul(u, ux)), op.MulScalar(uxx, b.ref.Nu))
	return op.Mean(op.Square(rest))
}

func (b *burgers) run(way burgersWay, mode galley.Mode) error {
	name := map[galley.Mode]string{galley.Eager: "eager", galley.Static: "traced"}[mode]
	s := b.d.NewSession()
	params, err := b.params(s)
	if err != nil {
		return err
	}
	points, err := b.file.Read("xt")
	if err != nil {
		return err
	}
	xt, err := galley.Read(op.Cast(s.Tensor(points), array.F64))
	if err != nil {
		return err
	}
	if err := b.derivatives(way, name, params, xt); err != nil {
		return err
	}
	return b.train(way, name, mode, params, xt)
}

// derivatives compares the fields and the gradients of the loss at the start.
func (b *burgers) derivatives(way burgersWay, mode string, params []*nn.Param, xt array.Array) error {
	args := []array.Array{xt}
	for _, p := range params {
		a, err := galley.Read(p.Value)
		if err != nil {
			return err
		}
		args = append(args, a)
	}
	results, err := execute(b.d, mode, args, func(in []*op.Tensor) []*op.Tensor {
		defer nn.Bind(params, in[1:])()
		u, ux, ut, uxx := way.fields(params, in[0])
		return append([]*op.Tensor{u, ux, ut, uxx}, galley.Grad(b.loss(way, params, in[0]), in[1:]...)...)
	})
	if err != nil {
		return err
	}
	names := []string{"u", "ux", "ut", "uxx"}
	for i := range params {
		names = append(names, fmt.Sprintf("grad%d", i))
	}
	for i, name := range names {
		want, err := b.file.Read(name)
		if err != nil {
			return err
		}
		got := results[i].Reshape(want.Shape()...)
		b.compare(way.name+mode+" "+name, relativeError(got, want))
	}
	return nil
}

func (b *burgers) train(way burgersWay, name string, mode galley.Mode, params []*nn.Param,
	xt array.Array) error {
	t, err := galley.NewTrainer(galley.TrainerConfig{
		Device: b.d, Params: params, Mode: mode,
		Loss: func(batch []*op.Tensor) *op.Tensor {
			x := batch[0]
			if !x.Tracked() {
				x = x.Track()
			}
			return b.loss(way, params, x)
		},
		Optimizer: optim.Adam{}, Schedule: optim.Constant{LR: b.ref.LR},
	})
	if err != nil {
		return err
	}
	for i, want := range b.ref.Losses {
		m, err := t.Step(xt)
		if err != nil {
			return err
		}
		b.compare(fmt.Sprintf("%s%s loss %d", way.name, name, i), math.Abs(m.Loss-want)/math.Abs(want))
	}
	return nil
}

func (b *burgers) compare(name string, e float64) {
	var faults []string
	if !(e <= burgersTolerance) {
		faults = []string{fmt.Sprintf("relative error %.3g, want ≤ %.0e", e, burgersTolerance)}
	}
	b.r.Add(name, faults, "")
}
