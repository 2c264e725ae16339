package paged

import (
	"sync"

	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/kernel"
)

// Sequence is one sequence's part of a step: tokens that follow those whose keys and values are in its pages.
type Sequence struct {
	// Pages holds the pages of the sequence's keys and values, PageTokens in each, with space for Tokens.
	Pages []int32
	// Start is the number of previous tokens.
	Start  int
	Tokens []int32
	// Want is the number of last tokens whose logits are wanted.
	Want int
	// Adapter is that of the sequence; nil for none.
	Adapter *Adapter
}

// Step computes tokens of many sequences at once, with memory that it reuses. It is not safe for concurrent
// use.
type Step struct {
	model *Model
	cache *Cache
	most  int
	team  *team       // nil for a single device
	group *comm.Group // of the devices, while a step runs

	count    int
	position []int
	page     []int32
	slot     []int
	tasks    []attendTask
	adapted  []adaptedRows
	// lastAdapter is the adapter of the last one.
	lastAdapter *Adapter

	x, h, y   []float32 // hidden states, a layer's input, its output
	z         []float32 // attention's output if the MLP is parallel
	q, k, v   []float32
	attended  []float32
	inner     []float32
	gated     []float32 // the inner columns of a gated MLP
	logits    []float32
	workMu    sync.Mutex
	work      []*attendWork // free
	splitList []splitWork

	partRows, gatherRows, scatterRows []float32
	// What all devices have together, and this one's part of the hidden states.
	attendedAll, inners, ys, logitsAll, embeds []float32
	lowRows, changeRows                        []float32 // of adapters
}

// NewStep allocates the memory for steps of up to rows tokens.
func NewStep(m *Model, c *Cache, rows int) *Step {
	if len(m.others) == 0 {
		return newStep(m, c, rows)
	}
	t := newTeam(m, c, rows)
	t.steps[0].team = t
	return t.steps[0]
}

func newStep(m *Model, c *Cache, rows int) *Step {
	s := &Step{model: m, cache: c, most: rows}
	hidden := m.config.Hidden
	var q, k, v, out, inner int
	for _, l := range m.layers {
		h := l.attention.heads()
		q, k, v = max(q, h.queries*h.dim), max(k, h.keys*h.dim), max(v, h.keys*h.valueDim)
		out = max(out, h.queries*h.valueDim)
		inner = max(inner, l.attention.widest(), l.mlp.width())
	}
	take := func(width int) []float32 { return make([]float32, rows*width) }
	s.x, s.h, s.y = take(hidden), take(hidden), take(hidden)
	s.q, s.k, s.v, s.attended, s.inner = take(q), take(k), take(v), take(out), take(inner)
	s.position, s.page, s.slot = make([]int, rows), make([]int32, rows), make([]int, rows)
	return s
}

// Rows returns the maximum number of tokens per step.
func (s *Step) Rows() int { return s.most }

func (s *Step) pool() *kernel.Pool { return s.model.pool }

// rows calls f for every row, in parallel if rows of that width are worth it.
func (s *Step) rows(n, width int, f func(i int)) {
	s.pool().For(n, max(1, 1<<14/max(1, width)), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			f(i)
		}
	})
}

// Run computes sequences, with at most Rows tokens in total, and returns the requested logits, one row of the
// vocabulary for each, in order. They are valid until the next call.
func (s *Step) Run(seqs []Sequence) []float32 {
	if s.team != nil {
		return s.team.run(seqs)
	}
	return s.run(seqs)
}

func (s *Step) run(seqs []Sequence) []float32 {
	s.hidden(seqs)
	return s.logitsOf()
}

// capped limits x to cap·tanh(x/cap).
func capped(x []float32, c float32) {
	kernel.MulScalar(x, x, 1/c)
	kernel.Tanh(x, x)
	kernel.MulScalar(x, x, c)
}

// hidden computes the hidden states after the last layer into x, of the rows whose logits are wanted.
func (s *Step) hidden(seqs []Sequence) {
	s.place(seqs)
	s.embed(seqs)
	m := s.model
	for i := range m.layers {
		l := &m.layers[i]
		last := i == len(m.layers)-1
		s.normalise(s.h, s.x, l.attentionNorm)
		if last && !m.watched {
			s.attendWanted(seqs)
		}
		s.attend(i, s.h[:s.count*m.config.Hidden])
		hd := l.attention.heads()
		columns := hd.queries * hd.valueDim
		if last && !m.watched {
			s.keepWanted(seqs, columns)
		}
		s.afterAttention(l, s.join(&s.attendedAll, s.attended[:s.count*columns], s.count, hd.all*hd.valueDim))
	}
	if m.watched { // all inputs of the last layer were to be seen
		s.keepWanted(seqs, 0)
	}
}

// afterAttention computes the rest of a layer.
func (s *Step) afterAttention(l *layer, attended []float32) {
	if s.count == 0 {
		return
	}
	if l.parallel {
		s.besides(l, attended)
		return
	}
	n, size := s.count, s.count*s.model.config.Hidden
	x, h, y := s.x[:size], s.h[:size], s.y[:size]
	s.finish(l.attention.output(), y, attended, n)
	s.add(x, y, l.attentionPost, l.scale)
	s.normalise(h, x, l.mlpNorm)
	l.mlp.run(s, y, h, n)
	s.add(x, y, l.mlpPost, l.scale)
}

// besides computes the rest of a layer with parallel blocks, whose MLP reads the same normalised input, in h.
func (s *Step) besides(l *layer, attended []float32) {
	n := s.count * s.model.config.Hidden
	x, h, y, z := s.x[:n], s.h[:n], s.y[:n], grown(&s.z, n)
	s.finish(l.attention.output(), z, attended, s.count)
	if !l.mlpNorm.none() {
		s.normalise(h, x, l.mlpNorm)
	}
	l.mlp.run(s, y, h, s.count)
	if !l.mlpPost.none() {
		s.normalise(y, y, l.mlpPost)
	}
	s.add(y, z, l.attentionPost, 1)
	s.add(x, y, norm{}, l.scale)
}

// place determines where every row's keys and values are stored.
func (s *Step) place(seqs []Sequence) {
	s.count, s.tasks, s.adapted = 0, s.tasks[:0], s.adapted[:0]
	for i := range seqs {
		q := &seqs[i]
		for j := range q.Tokens {
			p := q.Start + j
			s.position[s.count], s.page[s.count], s.slot[s.count] = p, q.Pages[p/PageTokens], p%PageTokens
			s.count++
		}
		first := s.count - len(q.Tokens)
		s.noteAdapter(q.Adapter, first)
		s.attendRange(first, s.count, q.Pages)
	}
}

// finish computes the last product of a part of a layer: y gets the columns of all devices.
func (s *Step) finish(p projection, y, x []float32, rows int) {
	if s.group == nil {
		s.multiply(p, y, x, rows)
		return
	}
	part := grown(&s.ys, rows*p.out())
	s.multiply(p, part, x, rows)
	s.join(&y, part, rows, s.model.config.Hidden)
}

func (s *Step) embed(seqs []Sequence) {
	m, row := s.model, 0
	hidden := m.config.Hidden
	for _, q := range seqs {
		for _, id := range q.Tokens {
			if i := int(id); i >= m.vocab.lo && i < m.vocab.hi {
				m.tokens.Row(s.x[row*hidden:(row+1)*hidden], i-m.vocab.lo)
			}
			row++
		}
	}
	s.exchange(seqs)
	for row := range s.count {
		x := s.x[row*hidden : (row+1)*hidden]
		if m.scale != 1 {
			kernel.MulScalar(x, x, m.scale)
		}
		if m.positions != nil {
			m.positions.Row(s.h, s.position[row])
			kernel.Add(x, x, s.h[:hidden])
		}
	}
}

// exchange gets the embeddings of tokens from the devices that have them.
func (s *Step) exchange(seqs []Sequence) {
	if s.group == nil {
		return
	}
	hidden, tp := s.model.config.Hidden, s.group.Size()
	all := s.join(&s.embeds, s.x[:s.count*hidden], s.count, hidden*tp)
	row := 0
	for _, q := range seqs {
		for _, id := range q.Tokens {
			at := (row*tp + s.model.owner(int(id), tp)) * hidden
			copy(s.x[row*hidden:(row+1)*hidden], all[at:at+hidden])
			row++
		}
	}
}

func (s *Step) normalise(h, x []float32, n norm) {
	w := s.model.config.Hidden
	s.rows(s.count, w, func(i int) { n.row(h[i*w:(i+1)*w], x[i*w:(i+1)*w]) })
}

// add adds the output of a part of a layer to the hidden states, times scale and normalised if the layer has
// a norm there.
func (s *Step) add(x, y []float32, post norm, scale float32) {
	w := s.model.config.Hidden
	s.rows(s.count, w, func(i int) {
		xi, yi := x[i*w:(i+1)*w], y[i*w:(i+1)*w]
		if !post.none() {
			post.row(yi, yi)
		}
		if scale != 1 {
			kernel.MulScalar(yi, yi, scale)
		}
		kernel.Add(xi, xi, yi)
	})
}

// grown returns a slice of n elements in memory that is reused.
func grown(keep *[]float32, n int) []float32 {
	if len(*keep) < n {
		*keep = make([]float32, n)
	}
	return (*keep)[:n]
}

func (s *Step) parts(n int) []float32   { return grown(&s.partRows, n) }
func (s *Step) gather(n int) []float32  { return grown(&s.gatherRows, n) }
func (s *Step) scatter(n int) []float32 { return grown(&s.scatterRows, n) }

// Row returns the normalised hidden state from which row i of the last Run's logits was computed.
func (s *Step) Row(i int) []float32 {
	n := s.model.config.Hidden
	return s.h[i*n : (i+1)*n]
}
