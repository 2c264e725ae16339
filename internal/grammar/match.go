package grammar

import (
	"encoding/binary"
	"errors"
	"slices"
	"sync"
)

// Vocabulary is the bytes of every token, as a tree.
type Vocabulary struct {
	size  int
	nodes []trieNode
	text  []string
}

type trieNode struct {
	next   map[byte]int32
	bytes  []byte // the keys of next, in order
	tokens []int32
}

// NewVocabulary takes the bytes of each token by its number; tokens without any are never chosen.
func NewVocabulary(texts []string) *Vocabulary {
	v := &Vocabulary{size: len(texts), nodes: []trieNode{{}}, text: texts}
	for id, t := range texts {
		if t == "" {
			continue
		}
		at := int32(0)
		for i := range len(t) {
			n := &v.nodes[at]
			if n.next == nil {
				n.next = map[byte]int32{}
			}
			to, ok := n.next[t[i]]
			if !ok {
				to = int32(len(v.nodes))
				n.next[t[i]] = to
				n.bytes = append(n.bytes, t[i])
				v.nodes = append(v.nodes, trieNode{})
			}
			at = to
		}
		v.nodes[at].tokens = append(v.nodes[at].tokens, int32(id))
	}
	return v
}

// Compiled is a grammar over a vocabulary: what many requests share.
type Compiled struct {
	g     *Grammar
	v     *Vocabulary
	stops []int32

	mu     sync.Mutex
	stacks []stack
	known  map[stack]int32
	states []state
	byKey  map[string]int32
}

// stack is a place in the rules, and where to continue after its rule; number 0 is the end of the text.
type stack struct{ at, below int32 }

// state is all places where a text may stand.
type state struct {
	stacks []int32
	next   map[byte]int32 // -1 is nowhere
	mask   []uint64
}

// Limits of what a grammar may come to.
const (
	maxStates = 1 << 16
	maxStacks = 1 << 20
)

// Compile prepares a grammar. Stops are the tokens that may come where the text may end.
func Compile(g *Grammar, v *Vocabulary, stops []int32) (*Compiled, error) {
	c := &Compiled{g: g, v: v, stops: stops, stacks: []stack{{-1, -1}}, known: map[stack]int32{},
		byKey: map[string]int32{}}
	found := map[int32]bool{}
	visited := map[stack]bool{}
	for _, a := range g.rules[0] {
		c.expand(int32(a), 0, found, visited)
	}
	if _, err := c.state(found); err != nil {
		return nil, err
	}
	return c, nil
}

// push returns the number of a stack.
func (c *Compiled) push(s stack) int32 {
	id, ok := c.known[s]
	if !ok {
		id = int32(len(c.stacks))
		c.stacks = append(c.stacks, s)
		c.known[s] = id
	}
	return id
}

// expand finds the stacks whose top is a byte, or the end, from a place in the rules on.
func (c *Compiled) expand(at, below int32, found map[int32]bool, visited map[stack]bool) {
	s := stack{at, below}
	if visited[s] || len(c.stacks) > maxStacks {
		return
	}
	visited[s] = true
	switch e := c.g.elems[at]; e.kind {
	case endElem:
		if below == 0 {
			found[0] = true
			return
		}
		under := c.stacks[below]
		c.expand(under.at, under.below, found, visited)
	case setElem:
		found[c.push(s)] = true
	case ruleElem:
		then := below
		if c.g.elems[at+1].kind != endElem {
			then = c.push(stack{at + 1, below})
		}
		for _, a := range c.g.rules[e.rule] {
			c.expand(int32(a), then, found, visited)
		}
	}
}

var errStates = errors.New("the grammar has too many states")

// state returns the number of a set of stacks.
func (c *Compiled) state(found map[int32]bool) (int32, error) {
	list := make([]int32, 0, len(found))
	for s := range found {
		list = append(list, s)
	}
	slices.Sort(list)
	key := make([]byte, 0, 4*len(list))
	for _, s := range list {
		key = binary.LittleEndian.AppendUint32(key, uint32(s))
	}
	if id, ok := c.byKey[string(key)]; ok {
		return id, nil
	}
	if len(c.states) >= maxStates || len(c.stacks) > maxStacks {
		return -1, errStates
	}
	id := int32(len(c.states))
	c.byKey[string(key)] = id
	c.states = append(c.states, state{stacks: list, next: map[byte]int32{}})
	return id, nil
}

// step returns where a byte leads; -1 is nowhere.
func (c *Compiled) step(from int32, b byte) (int32, error) {
	if to, ok := c.states[from].next[b]; ok {
		return to, nil
	}
	found, visited := map[int32]bool{}, map[stack]bool{}
	for _, id := range c.states[from].stacks {
		if s := c.stacks[id]; id != 0 && c.g.elems[s.at].set.has(b) {
			c.expand(s.at+1, s.below, found, visited)
		}
	}
	to := int32(-1)
	if len(found) > 0 {
		var err error
		if to, err = c.state(found); err != nil {
			return -1, err
		}
	}
	c.states[from].next[b] = to
	return to, nil
}

// ends reports whether the text may end here, and whether it must.
func (c *Compiled) ends(at int32) (may, must bool) {
	s := c.states[at].stacks
	return len(s) > 0 && s[0] == 0, len(s) == 1 && s[0] == 0
}

// maskOf returns the tokens that fit after a state.
func (c *Compiled) maskOf(at int32) ([]uint64, error) {
	if m := c.states[at].mask; m != nil {
		return m, nil
	}
	m := make([]uint64, (c.v.size+63)/64)
	if err := c.walk(at, 0, m); err != nil {
		return nil, err
	}
	if may, _ := c.ends(at); may {
		for _, id := range c.stops {
			if int(id) < c.v.size {
				m[id/64] |= 1 << (id % 64)
			}
		}
	}
	c.states[at].mask = m
	return m, nil
}

func (c *Compiled) walk(at, node int32, m []uint64) error {
	n := &c.v.nodes[node]
	for _, id := range n.tokens {
		m[id/64] |= 1 << (id % 64)
	}
	for _, b := range n.bytes {
		to, err := c.step(at, b)
		if err != nil {
			return err
		}
		if to >= 0 {
			if err := c.walk(to, n.next[b], m); err != nil {
				return err
			}
		}
	}
	return nil
}

// Matcher goes along one text. It is for one goroutine.
type Matcher struct {
	c    *Compiled
	at   int32
	done bool
}

// Matcher is like one that stands at the begin.
func (c *Compiled) Matcher() *Matcher { return &Matcher{c: c} }

// Allowed returns a bit for each token that may come next; none where the grammar went beyond its limits.
func (m *Matcher) Allowed() []uint64 {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	mask, err := m.c.maskOf(m.at)
	if err != nil || m.at < 0 {
		return make([]uint64, (m.c.v.size+63)/64)
	}
	return mask
}

// Take continues by a token.
func (m *Matcher) Take(id int32) {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	if slices.Contains(m.c.stops, id) {
		m.done = true
		return
	}
	for i := range len(m.c.v.text[id]) {
		to, err := m.c.step(m.at, m.c.v.text[id][i])
		if err != nil || to < 0 {
			m.done = true
			return
		}
		m.at = to
	}
	_, m.done = m.c.ends(m.at)
}

// Done reports whether nothing can follow.
func (m *Matcher) Done() bool { return m.done }

// MayEnd reports whether the text may end here.
func (m *Matcher) MayEnd() bool {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	may, _ := m.c.ends(m.at)
	return may
}
