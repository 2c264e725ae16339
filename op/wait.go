package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/hlo"
)

// Starter is a collective that can be started and waited for later, so that devices compute meanwhile.
type Starter interface {
	Collective
	// Started returns the op that only starts; its result must not be read before Wait.
	Started() Op
}

// Wait returns the result of a collective that was started, when it is there. source is what the collective
// reads: it must not be overwritten before.
func Wait(started, source *Tensor) *Tensor { return apply1(waitFor{}, started, source) }

// waitFor is an op of local programs.
type waitFor struct{ collective }

func (waitFor) Name() string { return "wait" }

// Over returns nothing: whom it waits for, the start has said.
func (waitFor) Over() (string, string) { return "", "_" }

// Waits tells the op from those that meet others.
func (waitFor) Waits() {}

// Waiter is an op that ends an exchange which another started.
type Waiter interface{ Waits() }

// InPlace returns the place where the result arrives.
func (waitFor) InPlace() []int { return []int{0} }

func (waitFor) NoGradient() string {
	return "gradients are taken before programs are made of starts and waits"
}

func (waitFor) VJP(in, _, _ []*Tensor) []*Tensor { return make([]*Tensor, len(in)) }

func (waitFor) Infer(in []Type) ([]Type, error) {
	if len(in) != 2 {
		return nil, fmt.Errorf("want what was started and its source: got %d operands", len(in))
	}
	return in[:1], nil
}

func (waitFor) Work(_, _ []Type) Work { return Work{} }

func (o waitFor) Eval(env *Env, in, out []array.Array) {
	if len(in[0].Bytes()) == 0 {
		return
	}
	at := &in[0].Bytes()[0]
	if p := env.pending[at]; p != nil {
		delete(env.pending, at)
		_, err := p.Wait()
		must(o, err)
	}
	if at != &out[0].Bytes()[0] {
		copyBytes(env, out[0], in[0])
	}
}

// finish waits for an exchange, or leaves it to Wait.
func (env *Env) finish(o Op, async bool, out array.Array, p *comm.Pending) {
	if !async || len(out.Bytes()) == 0 {
		_, err := p.Wait()
		must(o, err)
		return
	}
	if env.pending == nil {
		env.pending = map[*byte]*comm.Pending{}
	}
	env.pending[&out.Bytes()[0]] = p
}

func (waitFor) Emit(_ *hlo.Writer, in []hlo.Ref, _ []Type) []hlo.Ref { return in[:1] }

func (waitFor) Samples() []Sample { return oneSample(f32(5, 7), f32(5)) }
