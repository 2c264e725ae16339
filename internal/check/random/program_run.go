package random

import (
	"fmt"
	"io"
	"regexp"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/dtensor"
	"github.com/galley-ml/galley/eager"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

// programSteps is how many steps of AdamW a program is trained for.
const programSteps = 2

// Trained is the result of training a program: the values and gradients of the first step, all losses, and
// the parameters after the last step.
type Trained struct {
	Values, Grads, Params []array.Array
	Losses                []float64
}

// limitOfPrograms is the most that f64 results may differ, relative to numbers above 1.
const limitOfPrograms = 1e-10

// Compare returns an error if results differ; those that one of the two does not have are not compared.
func (t *Trained) Compare(want *Trained) error {
	for i, l := range want.Losses {
		if !(off(t.Losses[i], l) <= limitOfPrograms) {
			return fmt.Errorf("loss of step %d: got %v, want %v", i, t.Losses[i], l)
		}
	}
	for name, pair := range map[string][2][]array.Array{"value": {t.Values, want.Values},
		"gradient": {t.Grads, want.Grads}, "parameter": {t.Params, want.Params}} {
		if pair[0] == nil || pair[1] == nil {
			continue
		}
		for i, w := range pair[1] {
			if err := near(pair[0][i], w); err != nil {
				return fmt.Errorf("%s %d: %w", name, i, err)
			}
		}
	}
	return nil
}

func near(got, want array.Array) error {
	if !got.Shape().Equal(want.Shape()) {
		return fmt.Errorf("got shape %v, want %v", got.Shape(), want.Shape())
	}
	for k := range want.Len() {
		if !(off(got.At(k), want.At(k)) <= limitOfPrograms) {
			return fmt.Errorf("element %d of %v: got %v, want %v", k, want.Shape(), got.At(k), want.At(k))
		}
	}
	return nil
}

// adamW returns the optimizer of all programs.
func (p *Annotated) adamW() optim.Optimizer { return optim.AdamW{WeightDecay: 0.1, Eps: 1e-3} }

// session is a scope of eager tensors.
type session interface {
	op.Scope
	Tensor(a array.Array) *op.Tensor
}

// Alone trains the program on one device, without annotations.
func (p *Annotated) Alone() (*Trained, error) {
	d := galley.CPU(galley.Config{Threads: 1})
	defer d.Close()
	s := d.NewSession()
	params, err := p.params(s)
	if err != nil {
		return nil, err
	}
	return p.loop(s, params, nil, alone, func() error { return nil })
}

// Eager trains the program op by op on its meshes. Every annotation is checked when it is applied, and those
// of parameters and gradients after each step.
func (p *Annotated) Eager() (*Trained, error) {
	d := galley.CPU(galley.Config{Threads: 1})
	defer d.Close()
	w, err := dtensor.NewWorld(d, p.Devices)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	params, err := p.laidParams(w)
	if err != nil {
		return nil, err
	}
	stage := p.eagerStage()
	return p.loop(w, params, stage, p.layChecked, func() error { return p.paramsHonoured(params, stage) })
}

// laidParams returns the parameters in their requested layouts.
func (p *Annotated) laidParams(w *dtensor.World) ([]*nn.Param, error) {
	params, err := p.params(w)
	if err != nil {
		return nil, err
	}
	for i, x := range params {
		v, err := p.layChecked(x.Value, p.Weights[i].At)
		if err != nil {
			return nil, fmt.Errorf("parameter %q: %w", x.Name, err)
		}
		x.Value = v.Detach().Track()
	}
	return params, nil
}

// paramsHonoured returns an error if a parameter or its gradient does not have the requested layout, except
// for what ZeRO shards additionally.
func (p *Annotated) paramsHonoured(params []*nn.Param, stage optim.ShardingStage) error {
	zero := 0
	if stage != nil {
		zero = stage.Stage()
	}
	for i, x := range params {
		for from, v := range map[int]*op.Tensor{3: x.Value, 2: x.Grad()} {
			if err := p.honouredBesides(v, p.Weights[i].At, zero, from); err != nil {
				return fmt.Errorf("parameter %q: %w", x.Name, err)
			}
		}
	}
	return nil
}

// loop trains with a typical eager loop; look is called after each step, before gradients are cleared.
func (p *Annotated) loop(s session, params []*nn.Param, stage optim.ShardingStage, place placing,
	look func() error) (*Trained, error) {
	opt, err := eager.NewOptimizer(params, p.adamW(), eager.Config{Schedule: optim.Constant{LR: 1e-2},
		Sharding: stage})
	if err != nil {
		return nil, err
	}
	t := &Trained{}
	for i := range programSteps {
		if err := p.pass(t, i, s, params, place); err != nil {
			return nil, fmt.Errorf("step %d: %w", i, err)
		}
		if err := opt.Step(); err != nil {
			return nil, err
		}
		if err := look(); err != nil {
			return nil, err
		}
		opt.ClearGrad()
	}
	t.Params, err = readParams(params, func(x *nn.Param) *op.Tensor { return x.Value })
	return t, err
}

// pass goes forward and backward; t receives the loss, and in the first step values and gradients.
func (p *Annotated) pass(t *Trained, step int, s session, params []*nn.Param, place placing) error {
	var in []*op.Tensor
	for _, a := range p.batch(step) {
		in = append(in, s.Tensor(a))
	}
	v, err := p.forward(in, nn.Values(params), place)
	if err != nil {
		return err
	}
	loss, err := galley.Read(v[len(v)-1])
	if err != nil {
		return err
	}
	t.Losses = append(t.Losses, loss.At(0))
	if step == 0 {
		for i, x := range v {
			a, err := galley.Read(x)
			if err != nil {
				return fmt.Errorf("v%d: %w", i, err)
			}
			t.Values = append(t.Values, a)
		}
	}
	if err := v[len(v)-1].Backward(); err != nil {
		return fmt.Errorf("backward: %w", err)
	}
	if step == 0 {
		t.Grads, err = readParams(params, (*nn.Param).Grad)
	}
	return err
}

func readParams(params []*nn.Param, of func(*nn.Param) *op.Tensor) (list []array.Array, err error) {
	for _, x := range params {
		v := of(x)
		if v == nil {
			return nil, fmt.Errorf("parameter %q has no gradient", x.Name)
		}
		a, err := galley.Read(v)
		if err != nil {
			return nil, fmt.Errorf("parameter %q: %w", x.Name, err)
		}
		list = append(list, a)
	}
	return list, nil
}

// Check compares the program op by op on its meshes, and compiled for them, with one device.
func (p *Annotated) Check() error {
	want, err := p.Alone()
	if err != nil {
		return fmt.Errorf("%vone device: %w", p, err)
	}
	for _, way := range []struct {
		name string
		run  func() (*Trained, error)
	}{{"eager", p.Eager}, {"static", p.Static}, {"static", p.Under}} {
		got, err := way.run()
		if err == nil {
			err = got.Compare(want)
		}
		if err != nil {
			return fmt.Errorf("%v%s: %w", p, way.name, err)
		}
	}
	return nil
}

// Outcome is the number of programs with wrong results, and of those that were rejected with their line when
// compiled.
type Outcome struct{ Wrong, Refused int }

// Programs checks the programs of n seeds and prints those that fail.
func Programs(w io.Writer, from uint64, n int) (out Outcome) {
	for seed := from; seed < from+uint64(n); seed++ {
		switch err := DrawAnnotated(seed).Check(); {
		case Refused(err):
			out.Refused++
		case err != nil:
			out.Wrong++
			fmt.Fprintln(w, err)
		}
	}
	return out
}

// refusal matches the error of compiled programs for unreduced values that are sent to another stage, with
// its line.
var refusal = regexp.MustCompile(`static: .*\.go:\d+: constrain: .*it is unreduced, and another stage`)

// Refused reports whether an error of Check is an annotation that is rejected with its line.
func Refused(err error) bool { return err != nil && refusal.MatchString(err.Error()) }
