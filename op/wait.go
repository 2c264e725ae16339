package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/hlo"
)

// Starter is implemented by collectives that can be started and waited for later, so that devices compute
// meanwhile.
type Starter interface {
	Collective
	// Started returns the op that only starts the collective; its result must not be read before Wait.
	Started() Op
}

// Wait waits for a collective that was started, and returns its result. source is the collective's operand,
// which must not be overwritten before.
func Wait(started, source *Tensor) *Tensor { return apply1(waitFor{}, started, source) }

// waitFor occurs in local programs only.
type waitFor struct{ collective }

func (waitFor) Name() string { return "wait" }

// Over returns nothing: the group is that of the op that started the collective.
func (waitFor) Over() (string, string) { return "", "_" }

// Waits distinguishes the op from collectives that communicate themselves.
func (waitFor) Waits() {}

// Waiter is implemented by ops that complete a collective which another op started.
type Waiter interface{ Waits() }

// InPlace returns the operand into which the result is received.
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

// finish waits for a collective, or leaves it to Wait.
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
