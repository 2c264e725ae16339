package tokenizer

import (
	"math"
	"slices"
	"unicode/utf8"
)

// unigram cuts a piece into the tokens whose log-probabilities have the largest sum (SentencePiece's
// Viterbi). A character that no token covers is unknown, with a score below every token's; consecutive
// unknown characters are one token.
type unigram struct {
	vocab    map[string]int32
	scores   []float64
	trie     trie
	unknown  int32 // -1 for none
	fallback bool  // unknown text becomes byte tokens
	penalty  float64
}

// unknownPenalty is how far an unknown character's score is below the lowest token's.
const unknownPenalty = 10

func newUnigram(m *modelJSON) *unigram {
	u := &unigram{vocab: m.vocab, scores: m.scores, unknown: -1, fallback: m.ByteFallback}
	if m.UnkID != nil {
		u.unknown = *m.UnkID
	}
	least := math.Inf(1)
	for _, s := range m.scores {
		least = min(least, s)
	}
	u.penalty = least - unknownPenalty
	u.trie = newTrie(m.vocab)
	return u
}

func (m *unigram) vocabulary() map[string]int32 { return m.vocab }

// bestPath is the best tokenization up to a byte of the text: its score, and its last token.
type bestPath struct {
	score float64
	begin int32 // -1 if the byte is not reached yet
	id    int32
}

func (m *unigram) tokenize(out []token, piece string, w *work) []token {
	w.best = m.search(w.best[:0], piece)
	first := len(out)
	for end := int32(len(piece)); end > 0; {
		p := w.best[end]
		t := token{p.id, p.begin, end}
		end = p.begin
		if n := len(out); n > first && p.id == m.unknown && out[n-1].id == m.unknown {
			out[n-1].begin = t.begin
			continue
		}
		out = append(out, t)
	}
	slices.Reverse(out[first:])
	return m.known(out, first, piece)
}

// search fills best for every byte of a piece.
func (m *unigram) search(best []bestPath, piece string) []bestPath {
	best = append(best, bestPath{})
	for range len(piece) {
		best = append(best, bestPath{begin: -1})
	}
	for at := 0; at < len(piece); {
		_, size := utf8.DecodeRuneInString(piece[at:])
		here, covered := best[at].score, false
		offer := func(end int, id int32, score float64) {
			if to := &best[end]; to.begin < 0 || score > to.score {
				*to = bestPath{score, int32(at), id}
			}
		}
		m.trie.prefixes(piece[at:], func(n int, id int32) {
			covered = covered || n == size
			offer(at+n, id, here+m.scores[id])
		})
		if !covered {
			offer(at+size, m.unknown, here+m.penalty)
		}
		at += size
	}
	return best
}

// known replaces unknown tokens: text joined from several unknown characters may be a token after all, or
// become byte tokens.
func (m *unigram) known(out []token, first int, piece string) []token {
	if !slices.ContainsFunc(out[first:], func(t token) bool { return t.id == m.unknown }) {
		return out
	}
	tokens := slices.Clone(out[first:])
	out = out[:first]
	for _, t := range tokens {
		text := piece[t.begin:t.end]
		if id, ok := m.vocab[text]; ok && t.id == m.unknown {
			t.id = id
		} else if t.id == m.unknown && m.fallback {
			if ids := byteTokens(m.vocab, text); ids != nil {
				for _, id := range ids {
					out = append(out, token{id, t.begin, t.end})
				}
				continue
			}
		}
		if t.id >= 0 {
			out = append(out, t)
		}
	}
	return out
}

// trie finds the tokens that are prefixes of a text.
type trie struct {
	nodes  []trieNode
	labels []byte  // of the edges of each node, sorted
	to     []int32 // the node of each edge
}

type trieNode struct {
	edges, end int32 // in labels and to
	id         int32 // -1: no token ends here
}

func newTrie(vocab map[string]int32) trie {
	texts := make([]string, 0, len(vocab))
	for text := range vocab {
		if text != "" {
			texts = append(texts, text)
		}
	}
	slices.Sort(texts)
	t := trie{}
	t.build(texts, 0, vocab)
	return t
}

// build adds the node for texts that share their first depth bytes, and all nodes below it.
func (t *trie) build(texts []string, depth int, vocab map[string]int32) int32 {
	at := int32(len(t.nodes))
	t.nodes = append(t.nodes, trieNode{id: -1})
	if len(texts) > 0 && len(texts[0]) == depth {
		t.nodes[at].id = vocab[texts[0]]
		texts = texts[1:]
	}
	var groups [][]string
	for begin, i := 0, 1; i <= len(texts); i++ {
		if i == len(texts) || texts[i][depth] != texts[begin][depth] {
			groups = append(groups, texts[begin:i])
			begin = i
		}
	}
	t.nodes[at].edges = int32(len(t.to))
	for _, g := range groups {
		t.labels = append(t.labels, g[0][depth])
		t.to = append(t.to, 0)
	}
	t.nodes[at].end = int32(len(t.to))
	for i, g := range groups {
		to := t.build(g, depth+1, vocab)
		t.to[int(t.nodes[at].edges)+i] = to
	}
	return at
}

// prefixes calls found with the length and id of every token that is a prefix of text, shortest first.
func (t *trie) prefixes(text string, found func(n int, id int32)) {
	node := t.nodes[0]
	for i := range len(text) {
		e, ok := slices.BinarySearch(t.labels[node.edges:node.end], text[i])
		if !ok {
			return
		}
		node = t.nodes[t.to[int(node.edges)+e]]
		if node.id >= 0 {
			found(i+1, node.id)
		}
	}
}
