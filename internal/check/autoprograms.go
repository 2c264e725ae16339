package check

import (
	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// AutoProgram is a program other than a language model, for which a plan is searched.
type AutoProgram struct {
	Name string
	// Batch is the types of its batches; integers are below Limit.
	Batch []galley.Type
	Limit int
	// Build makes its layers and returns its loss.
	Build func(in *nn.Init) func(batch []*op.Tensor) *op.Tensor
}

func floats(shape ...int) galley.Type { return galley.Type{DType: array.F32, Shape: shape} }
func ids(shape ...int) galley.Type    { return galley.Type{DType: array.I32, Shape: shape} }

// AutoPrograms returns ten programs of as many kinds, small enough that every candidate of their space can be
// priced.
func AutoPrograms() []AutoProgram {
	return []AutoProgram{
		{"wide MLP", []galley.Type{floats(32, 256), floats(32, 256)}, 0, wideMLP},
		{"deep MLP", []galley.Type{floats(256, 64), ids(256)}, 16, deepMLP},
		{"CNN", []galley.Type{floats(16, 3, 16, 16), ids(16)}, 10, cnn},
		{"autoencoder", []galley.Type{floats(64, 784)}, 0, autoencoder},
		{"encoder-decoder", []galley.Type{floats(8, 24, 64), floats(8, 24, 64)}, 0, encoderDecoder},
		{"two towers", []galley.Type{ids(128), ids(128)}, 4000, twoTowers},
		{"recommendation", []galley.Type{ids(128, 4), floats(128, 13), floats(128, 1)}, 20000, recommendation},
		{"mixture of experts", []galley.Type{floats(64, 64), floats(64, 64)}, 0, mixture},
		{"LSTM", []galley.Type{floats(32, 8, 32), ids(32)}, 8, lstm},
		{"MLP-mixer", []galley.Type{floats(16, 32, 64), ids(16)}, 10, mixer},
	}
}

func wideMLP(in *nn.Init) func(batch []*op.Tensor) *op.Tensor {
	up, mid, down := nn.NewLinearNoBias(in.At("up"), 256, 1024), nn.NewLinearNoBias(in.At("mid"), 1024, 1024),
		nn.NewLinearNoBias(in.At("down"), 1024, 256)
	return func(b []*op.Tensor) *op.Tensor {
		return op.MSELoss(down.Forward(op.ReLU(mid.Forward(op.ReLU(up.Forward(b[0]))))), b[1], "mean")
	}
}

func deepMLP(in *nn.Init) func(batch []*op.Tensor) *op.Tensor {
	var layers []*nn.Linear
	for i := range 6 {
		layers = append(layers, nn.NewLinear(in.At("layers").Index(i), 64, 64))
	}
	head := nn.NewLinearNoBias(in.At("head"), 64, 16)
	return func(b []*op.Tensor) *op.Tensor {
		x := b[0]
		for _, l := range layers {
			x = op.Add(x, op.GELU(l.Forward(x), "tanh"))
		}
		return op.CrossEntropy(head.Forward(x), b[1], op.CrossEntropyConfig{})
	}
}

func cnn(in *nn.Init) func(batch []*op.Tensor) *op.Tensor {
	same := op.ConvConfig{Padding: []int{1, 1}}
	first, second := nn.NewConv2D(in.At("first"), 3, 16, 3, same), nn.NewConv2D(in.At("second"), 16, 32, 3, same)
	head := nn.NewLinearNoBias(in.At("head"), 32, 10)
	return func(b []*op.Tensor) *op.Tensor {
		x := op.ReLU(second.Forward(op.ReLU(first.Forward(b[0]))))
		return op.CrossEntropy(head.Forward(op.Mean(x, 2, 3)), b[1], op.CrossEntropyConfig{})
	}
}

func autoencoder(in *nn.Init) func(batch []*op.Tensor) *op.Tensor {
	down, code := nn.NewLinearNoBias(in.At("down"), 784, 256), nn.NewLinearNoBias(in.At("code"), 256, 32)
	open, up := nn.NewLinearNoBias(in.At("open"), 32, 256), nn.NewLinearNoBias(in.At("up"), 256, 784)
	return func(b []*op.Tensor) *op.Tensor {
		x := op.Tanh(code.Forward(op.ReLU(down.Forward(b[0]))))
		return op.MSELoss(up.Forward(op.ReLU(open.Forward(x))), b[0], "mean")
	}
}

// encoderDecoder attends within its input and then from its output to it.
func encoderDecoder(in *nn.Init) func(batch []*op.Tensor) *op.Tensor {
	self, cross := newHeads(in.At("encoder")), newHeads(in.At("decoder"))
	return func(b []*op.Tensor) *op.Tensor {
		memory := op.Add(b[0], self.attend(b[0], b[0]))
		return op.MSELoss(cross.attend(b[1], memory), b[1], "mean")
	}
}

// heads is attention with two matrices: one for queries, keys and values, and the output projection.
type heads struct{ qkv, out *nn.Linear }

func newHeads(in *nn.Init) heads {
	return heads{nn.NewLinearNoBias(in.At("qkv"), 64, 192), nn.NewLinearNoBias(in.At("out"), 64, 64)}
}

func (h heads) attend(x, memory *op.Tensor) *op.Tensor {
	parts := op.Split(h.qkv.Forward(x), 2, 64, 64, 64)
	kept := op.Split(h.qkv.Forward(memory), 2, 64, 64, 64)
	y := op.Attention(nn.SplitHeads(parts[0], 4), nn.SplitHeads(kept[1], 4), nn.SplitHeads(kept[2], 4),
		op.AttentionConfig{})
	if y.Err() != nil {
		return y
	}
	return h.out.Forward(op.Reshape(y, y.Dim(0), y.Dim(1), 64))
}

func twoTowers(in *nn.Init) func(batch []*op.Tensor) *op.Tensor {
	users, items := nn.NewEmbedding(in.At("users"), 4000, 64), nn.NewEmbedding(in.At("items"), 4000, 64)
	left, right := nn.NewLinearNoBias(in.At("left"), 64, 128), nn.NewLinearNoBias(in.At("right"), 64, 128)
	return func(b []*op.Tensor) *op.Tensor {
		x, y := left.Forward(op.ReLU(users.Forward(b[0]))), right.Forward(op.ReLU(items.Forward(b[1])))
		return nn.Contrastive(x, y, 0.1)
	}
}

// recommendation has an embedding table much larger than everything else, as such models do.
func recommendation(in *nn.Init) func(batch []*op.Tensor) *op.Tensor {
	table := nn.NewEmbedding(in.At("table"), 20000, 32)
	dense := nn.NewLinearNoBias(in.At("dense"), 13, 32)
	top, out := nn.NewLinearNoBias(in.At("top"), 160, 64), nn.NewLinearNoBias(in.At("out"), 64, 1)
	return func(b []*op.Tensor) *op.Tensor {
		sparse := op.Reshape(table.Forward(b[0]), b[0].Dim(0), 128)
		x := op.Concat([]*op.Tensor{sparse, op.ReLU(dense.Forward(b[1]))}, 1)
		return op.MSELoss(out.Forward(op.ReLU(top.Forward(x))), b[2], "mean")
	}
}

func mixture(in *nn.Init) func(batch []*op.Tensor) *op.Tensor {
	moe := nn.NewMoE(in.At("moe"),
		nn.MoEConfig{Hidden: 64, Intermediate: 128, Experts: 4, PerToken: 2, Fused: true})
	head := nn.NewLinearNoBias(in.At("head"), 64, 64)
	return func(b []*op.Tensor) *op.Tensor {
		return op.MSELoss(head.Forward(op.Add(b[0], moe.Forward(b[0]))), b[1], "mean")
	}
}

func lstm(in *nn.Init) func(batch []*op.Tensor) *op.Tensor {
	cells := nn.NewLSTM(in.At("cells"), 32, 64, nn.RecurrentConfig{NoBias: true})
	head := nn.NewLinearNoBias(in.At("head"), 64, 8)
	return func(b []*op.Tensor) *op.Tensor {
		return op.CrossEntropy(head.Forward(op.Mean(cells.Forward(b[0]), 1)), b[1], op.CrossEntropyConfig{})
	}
}

// mixer mixes along patches, then along channels.
func mixer(in *nn.Init) func(batch []*op.Tensor) *op.Tensor {
	across, along := nn.NewLinearNoBias(in.At("patches"), 32, 32), nn.NewLinearNoBias(in.At("up"), 64, 256)
	back, head := nn.NewLinearNoBias(in.At("down"), 256, 64), nn.NewLinearNoBias(in.At("head"), 64, 10)
	return func(b []*op.Tensor) *op.Tensor {
		x := op.Add(b[0], op.Transpose(op.GELU(across.Forward(op.Transpose(b[0], 0, 2, 1)), "tanh"), 0, 2, 1))
		x = op.Add(x, back.Forward(op.GELU(along.Forward(x), "tanh")))
		return op.CrossEntropy(head.Forward(op.Mean(x, 1)), b[1], op.CrossEntropyConfig{})
	}
}
