package main

import (
	"fmt"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/optim"
)

// optimizerFlags say how weights follow gradients, and what the loss has besides the cross-entropy.
type optimizerFlags struct {
	Optimizer      string  `help:"adamw; lion, with half of its memory and a third to a tenth of its rate; adafactor, with hardly any; muon, which orthogonalizes the steps of matrices, at adamw's rate; or sgd with momentum." enum:"adamw,adafactor,lion,muon,sgd" default:"adamw"`
	LabelSmoothing float64 `help:"Part of a label's weight that is spread over the vocabulary." default:"0"`
	LogitZ         float64 `name:"logit-z" help:"Weight of the mean square of the logarithm of the logits' sum of exponentials." default:"0"`
	RouterBalance  float64 `help:"Weight of how uneven the load of experts is." default:"0"`
	RouterBatch    bool    `help:"Take --router-balance over a whole batch, as transformers does, in place of each sequence; micro-batches then cannot be cut."`
	PredictAhead   float64 `help:"Weight of predicting the token behind the next, by the layer that DeepSeek-V3 has for it." default:"0"`
	RouterZ        float64 `name:"router-z" help:"Weight of the mean square of the logarithm of the routers' sums of exponentials." default:"0"`
}

// optimizer is the one of the flags.
func (f optimizerFlags) optimizer(decay float64) optim.Optimizer {
	adamW := optim.AdamW{Beta1: 0.9, Beta2: 0.95, WeightDecay: decay}
	switch f.Optimizer {
	case "adafactor":
		return optim.Adafactor{WeightDecay: decay}
	case "lion":
		return optim.Lion{WeightDecay: decay}
	case "muon":
		return optim.Muon{WeightDecay: decay, MatchAdamW: true, Rest: adamW}
	case "sgd":
		return optim.SGD{Momentum: 0.9, WeightDecay: decay}
	}
	return adamW
}

// ahead is how many layers that predict further tokens are trained.
func (f optimizerFlags) ahead() int {
	if f.PredictAhead > 0 {
		return 1
	}
	return 0
}

// withLoss is a model whose loss has what the flags ask for.
func (f optimizerFlags) withLoss(m models.Model) (models.Model, error) {
	c := f.losses()
	if c == (models.LossConfig{}) {
		return m, nil
	}
	return models.WithLoss(m, c)
}

func (f optimizerFlags) losses() models.LossConfig {
	return models.LossConfig{LabelSmoothing: f.LabelSmoothing, LogitZ: f.LogitZ, RouterBalance: f.RouterBalance,
		RouterZ: f.RouterZ, Ahead: f.PredictAhead, BySequence: f.RouterBalance != 0 && !f.RouterBatch}
}

// facts is what checkpoints keep of the losses.
func (f optimizerFlags) facts() []galley.Fact {
	text := "cross-entropy"
	if c := f.losses(); c != (models.LossConfig{}) {
		text = fmt.Sprintf("%+v", c)
	}
	return []galley.Fact{{Name: "losses", Value: text}}
}
