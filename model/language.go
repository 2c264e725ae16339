package model

import (
	"github.com/galley-ml/galley/data"
	"github.com/galley-ml/galley/internal/forecast"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/strategy"
)

// Language adapts a language model: token ids in, logits out, next-token cross-entropy as its loss.
// data.Tokens makes its batches. Under context parallelism the model is arranged as the strategy says.
func Language(m models.Model) Model { return &language{model: m} }

// language is a language model, arranged for a strategy if one is set.
type language struct {
	model    models.Model
	strategy *strategy.Strategy
}

func (l *language) Params() []*nn.Param { return l.model.Params() }

func (l *language) Forward(in ...*op.Tensor) []*op.Tensor {
	return l.arranged(in[0], func(m models.Model) *op.Tensor { return m.Forward(in[0]) })
}

func (l *language) Loss(in, labels []*op.Tensor) *op.Tensor {
	if bad := unpaired("language model", in, labels); bad != nil {
		return bad
	}
	return l.arranged(in[0], func(m models.Model) *op.Tensor { return m.Loss(in[0], labels[0]) })[0]
}

// arranged calls f with the model arranged for the sequence length of ids.
func (l *language) arranged(ids *op.Tensor, f func(models.Model) *op.Tensor) []*op.Tensor {
	m := l.model
	if l.strategy != nil && ids.Err() == nil && len(ids.Shape()) == 2 {
		var err error
		if m, _, err = forecast.Arrange(m, *l.strategy, ids.Dim(1)); err != nil {
			return []*op.Tensor{ir.Invalid(ids.Scope(), &ir.Error{Op: "language model", Err: err})}
		}
	}
	return []*op.Tensor{f(m)}
}

// Facts returns what a checkpoint has to record of a model in addition to its parameters.
func Facts(m Model) []data.Fact {
	if l, ok := m.(*language); ok {
		return []data.Fact{l.model.Config().Fact()}
	}
	return nil
}

// Under returns the model prepared for a strategy.
func Under(m Model, s *strategy.Strategy) Model {
	if s == nil || s.CP < 2 {
		return m
	}
	switch m := m.(type) {
	case *language:
		return &language{m.model, s}
	case *Parallel:
		p := *m
		p.Model = Under(m.Model, s)
		return &p
	}
	return m
}
