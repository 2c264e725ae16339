package models

import (
	"fmt"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// Model is a language model, or one for classification. Ids are integers of shape [batch, seq]; a vision
// model takes pixels [batch, channels, height, width] instead.
type Model interface {
	// Config returns the model's architecture.
	Config() Config
	// Params returns the parameters in the order of transformers; tied weights appear once.
	Params() []*nn.Param
	// Forward returns the logits [batch, seq, vocab] of each position's next token, or of the token itself in an
	// encoder; [batch, labels] for sequence classification, [batch, seq, labels] for token classification, and
	// [batch, seq, 2] for question answering: scores of each token as the first and as the last one.
	Forward(ids *op.Tensor) *op.Tensor
	// Loss returns the mean cross-entropy of labels, the ids of those tokens; labels of -100 are ignored. For
	// sequence classification, labels are classes [batch], or numbers: [batch] for a single label, else [batch,
	// labels] from 0 to 1. For token classification they are [batch, seq], and for question answering [batch,
	// 2], the positions of the first and last token; positions after the end of the sequence are ignored.
	Loss(ids, labels *op.Tensor) *op.Tensor
	// Decode returns the logits [batch, vocab] after the last of ids, which continue the sequence in c; it
	// extends c. All calls with one c have the same batch size.
	Decode(ids *op.Tensor, c *Cache) *op.Tensor
}

// IgnoreLabel is the label of positions that the loss ignores.
const IgnoreLabel = -100

// New makes a model with parameters initialized as in transformers: matrices normal, biases zero, norms one.
func New(c Config, in nn.Config) (Model, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	init := nn.NewInit(in)
	f, err := familyOf(c.Family)
	if err != nil {
		return nil, err
	}
	m, err := f.build(f, c, init.WithNormal(c.InitStd))
	if err != nil {
		return nil, err
	}
	if err := init.Err(); err != nil {
		return nil, err
	}
	if c.Ahead != len(m.ahead) {
		return nil, fmt.Errorf("models: %d layers that predict further tokens: want 0: %s has none", c.Ahead,
			c.Family)
	}
	m.config, m.params, m.linear = c, init.Params(), init.Adaptable()
	return m, nil
}

// Freeze returns the same model with the current values of m's parameters, without the memory that gradients
// need.
func Freeze(m Model) (Model, error) {
	values := map[string]*op.Tensor{}
	var in nn.Config
	for _, p := range m.Params() {
		if p.Value == nil {
			return nil, fmt.Errorf("models: parameter %q has no value", p.Name)
		}
		values[p.Name], in.DType = p.Value, p.Type.DType
	}
	in.Frozen = true
	in.Load = func(name string, _ op.Type) (*op.Tensor, error) { return values[name], nil }
	frozen, err := New(m.Config(), in)
	d, ok := m.(*decoder)
	if err == nil && ok && d.quantized != nil {
		err = frozen.(*decoder).quantizedAs(d)
	}
	if err == nil && ok && d.adapter != nil {
		err = adopt(frozen, d, values)
	}
	return frozen, err
}

// decoder implements all families: embedding, blocks, norm, head.
type decoder struct {
	config Config
	params []*nn.Param
	// linear holds the layers that adapters can modify; adapter, if not nil, describes which have one.
	linear  []nn.Adaptable
	adapter *adaptation
	// quantized holds the layers with quantized weights.
	quantized []*nn.Linear
	stem      stem
	blocks    []block
	// norm follows the last block; nil for none.
	norm layer
	head head
	// ahead holds the multi-token prediction layers, used by Loss.
	ahead []aheadLayer
	// warp is Recurrence.Warp.
	warp bool
	// loss holds the terms that Loss adds to the cross-entropy.
	loss LossConfig
	// layout is that of Loss's sequences, and sequence that of the hidden states.
	layout   Layout
	sequence nn.Sequence
}

// stem computes the first hidden states from tokens.
type stem struct {
	tokens *nn.Embedding
	// patches replaces all others in a vision model.
	patches *patches
	// positions are learned; nil with rotary positions.
	positions *nn.Embedding
	// types embeds token types, which are all the first one; nil if there are none.
	types *nn.Embedding
	// norm follows the sum of the embeddings; nil for none.
	norm layer
	// scale multiplies the token embeddings; 0 means 1.
	scale float64
	// padding, if not nil, is the id that positions skip; see countedPositions.
	padding *int
	// drop follows, and then wider, which projects the embeddings to the hidden size; nil for none.
	drop, wider layer
}

// head computes logits from the hidden states.
type head struct {
	// before is applied to the hidden states first; may be nil.
	before layer
	// linear is nil if the head is tied to the embedding table.
	linear *nn.Linear
	// bias is added to the logits of a tied table; nil for none.
	bias *nn.Param
	// scale multiplies the logits; 0 means 1.
	scale float64
	// cap limits the logits x to cap·tanh(x/cap); 0 means no limit.
	cap float64
}

func (m *decoder) Config() Config      { return m.config }
func (m *decoder) Params() []*nn.Param { return m.params }

func (m *decoder) Forward(ids *op.Tensor) *op.Tensor { return m.logits(m.hidden(ids, nil)) }

func (m *decoder) Loss(ids, labels *op.Tensor) *op.Tensor {
	if m.config.Task != Predict {
		return m.taskLoss(m.Forward(ids), labels)
	}
	m, ids, labels = m.ordered(ids, labels)
	return m.tokenLoss(ids, labels)
}

func (m *decoder) logits(x *op.Tensor) *op.Tensor {
	x = through(m.head.before, x)
	var y *op.Tensor
	if m.head.linear == nil {
		y = m.stem.tokens.Logits(x)
	} else {
		y = m.head.linear.Forward(x)
	}
	if m.head.bias != nil {
		y = op.Add(y, m.head.bias.Value)
	}
	if m.head.scale != 0 {
		y = op.MulScalar(y, m.head.scale)
	}
	if m.head.cap != 0 {
		y = op.MulScalar(op.Tanh(op.MulScalar(y, 1/m.head.cap)), m.head.cap)
	}
	return y
}

// hidden returns the hidden states after the last norm.
func (m *decoder) hidden(ids *op.Tensor, c *Cache) *op.Tensor {
	return through(m.norm, m.stream(ids, c))
}

// stream returns the hidden states after the last layer.
func (m *decoder) stream(ids *op.Tensor, c *Cache) *op.Tensor {
	if ids.Err() != nil {
		return ids
	}
	x := through(m.stem.wider, through(m.stem.drop, m.begin(ids, c)))
	var carried *op.Tensor
	for i, b := range m.blocks {
		if b, ok := b.(carrier); ok {
			x, carried = b.carry(nn.LayerMark(i), x, carried, c.layer(i))
			continue
		}
		x = b.forward(nn.LayerMark(i), x, c.layer(i))
	}
	return op.Mark(x, nn.HeadMark)
}

// begin returns the hidden states before the first layer.
func (m *decoder) begin(ids *op.Tensor, c *Cache) *op.Tensor {
	s := m.stem
	if s.patches != nil {
		return s.patches.forward(ids)
	}
	if len(ids.Shape()) != 2 {
		return invalid(ids, fmt.Errorf("ids: got shape %v, want [batch, seq]", ids.Shape()))
	}
	x := s.tokens.Forward(ids)
	if s.scale != 0 {
		x = op.MulScalar(x, s.scale)
	}
	if s.positions != nil {
		x = m.addPositions(x, ids, c)
	}
	if s.types != nil {
		x = op.Add(x, op.Narrow(s.types.Weight.Value, 0, 0, 1))
	}
	return through(s.norm, x)
}

// addPositions adds the learned embeddings of x's positions, which follow those in c.
func (m *decoder) addPositions(x, ids *op.Tensor, c *Cache) *op.Tensor {
	if x.Err() != nil {
		return x
	}
	seq, table := x.Dim(1), m.stem.positions.Weight.Value
	if m.stem.padding != nil {
		return m.addCounted(x, ids)
	}
	if p := c.inPages(); p != nil {
		return op.Add(x, op.Embedding(p.Positions, table))
	}
	if c != nil && c.start != nil {
		return op.Add(x, op.DynamicSlice(table, c.start, []int{0}, []int{seq}))
	}
	start := c.Len()
	if start+seq > m.config.Positions {
		return invalid(x, fmt.Errorf("sequence of %d tokens: %s has %s %d", start+seq, m.config.Family,
			m.positionsKey(), m.config.Positions))
	}
	if p := m.sequence.Packed; p != nil && c == nil {
		return op.Add(x, op.Embedding(p.Positions, table))
	}
	if m.layout.Parts > 1 && c == nil { // each device looks up the positions that it has
		return op.Add(x, op.Embedding(op.ZigzagPositions(x.Scope(), m.sequence.Parts(seq), seq), table))
	}
	return op.Add(x, op.Narrow(table, 0, start, start+seq))
}

// addCounted adds learned position embeddings that skip padding.
func (m *decoder) addCounted(x, ids *op.Tensor) *op.Tensor {
	if limit := m.config.Limit(); x.Dim(1) > limit {
		return invalid(x, fmt.Errorf("sequence of %d tokens: %s has %s %d, of which %d are for tokens", x.Dim(1),
			m.config.Family, m.positionsKey(), m.config.Positions, limit))
	}
	at := countedPositions(ids, *m.stem.padding)
	if p := m.sequence.Packed; p != nil {
		at = op.AddScalar(p.Positions, float64(*m.stem.padding+1))
	}
	return op.Add(x, m.stem.positions.Forward(at))
}

// positionsKey returns the name of the number of positions in config.json.
func (m *decoder) positionsKey() string {
	f, err := familyOf(m.config.Family)
	if err != nil {
		return "positions"
	}
	return f.keys.positions
}

// invalid returns a tensor that carries an error.
func invalid(x *op.Tensor, err error) *op.Tensor {
	return ir.Invalid(x.Scope(), &ir.Error{Pos: ir.Caller(), Op: "model", Err: err})
}
