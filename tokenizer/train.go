package tokenizer

import (
	"bytes"
	"cmp"
	"container/heap"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
)

// TrainConfig configures the tokenizer that Train makes.
type TrainConfig struct {
	// VocabSize is the largest number of tokens, including special ones and the 256 bytes.
	VocabSize int
	// MinCount is how often a pair must occur to become a token; 0 means once.
	MinCount int
	// Special are tokens that are never split, in the order of their ids from 0.
	Special []string
	// Split is the regular expression that cuts text into words, which no token crosses; "" means GPT-2's.
	Split string
	// Progress, if set, is called from time to time with the number of tokens so far.
	Progress func(tokens int)
}

// Train makes a byte-level BPE from texts and returns its tokenizer.json, which Parse and Hugging Face's
// library read. Neighbouring symbols within words merge, the most frequent pair first, and of equally
// frequent ones that of the lowest ids, as Hugging Face's BpeTrainer does.
func Train(texts iter.Seq[string], config TrainConfig) ([]byte, error) {
	if least := len(config.Special) + 256; config.VocabSize < least {
		return nil, fmt.Errorf("tokenizer: train: vocabulary: got %d, want at least %d, the bytes and special "+
			"tokens",
			config.VocabSize, least)
	}
	if config.Split == "" {
		config.Split = gpt2Pattern
	}
	m, err := newPattern(config.Split)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: train: %w", err)
	}
	t := newTrainer(config.Special)
	t.count(texts, matchSplit{matcher: m})
	if len(t.words) == 0 {
		return nil, errors.New("tokenizer: train: the texts are empty")
	}
	t.learn(config)
	return t.file(config)
}

// trainer counts pairs of symbols in words, and updates the counts while symbols merge.
type trainer struct {
	tokens  []string // by id
	symbols [256]int32
	words   []trainedWord
	pairs   map[pair]*pairCount
	queue   pairQueue
	merges  [][2]string
}

// trainedWord is a word as a list of symbols, and how often it occurs.
type trainedWord struct {
	ids   []int32
	count int
}

// pairCount is how often a pair occurs, and the words in which it occurs or has occurred.
type pairCount struct {
	count int
	words []int32
}

func newTrainer(special []string) *trainer {
	t := &trainer{tokens: slices.Clone(special), pairs: map[pair]*pairCount{}}
	order := make([]int, 256) // ids are in the order of the letters, not of the bytes
	for c := range order {
		order[c] = c
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(byteLetters[a], byteLetters[b]) })
	for _, c := range order {
		t.symbols[c] = int32(len(t.tokens))
		t.tokens = append(t.tokens, byteLetters[c])
	}
	return t
}

// count counts the words of texts.
func (t *trainer) count(texts iter.Seq[string], words splitter) {
	counts := map[string]int{}
	for text := range texts {
		words.split(aligned{text: text}, func(a aligned) { counts[a.text]++ })
	}
	list := make([]string, 0, len(counts))
	for w := range counts {
		list = append(list, w)
	}
	slices.Sort(list)
	for _, w := range list {
		ids := make([]int32, len(w))
		for i := range len(w) {
			ids[i] = t.symbols[w[i]]
		}
		t.words = append(t.words, trainedWord{ids, counts[w]})
	}
	for i := range t.words {
		w := &t.words[i]
		for j := range len(w.ids) - 1 {
			t.add(pair{w.ids[j], w.ids[j+1]}, int32(i), w.count)
		}
	}
	for p, c := range t.pairs {
		t.queue = append(t.queue, pairEntry{p, c.count})
	}
	heap.Init(&t.queue)
}

func (t *trainer) add(p pair, word int32, count int) {
	c := t.pairs[p]
	if c == nil {
		c = &pairCount{}
		t.pairs[p] = c
	}
	c.count += count
	if n := len(c.words); count > 0 && (n == 0 || c.words[n-1] != word) {
		c.words = append(c.words, word)
	}
}

// learn merges pairs until the vocabulary is full or no pair is frequent enough.
func (t *trainer) learn(config TrainConfig) {
	for len(t.tokens) < config.VocabSize && len(t.queue) > 0 {
		top := heap.Pop(&t.queue).(pairEntry)
		c := t.pairs[top.pair]
		if c.count != top.count { // the count has changed since it was queued
			if c.count > 0 {
				heap.Push(&t.queue, pairEntry{top.pair, c.count})
			}
			continue
		}
		if c.count < max(config.MinCount, 1) {
			return
		}
		t.merge(top.pair, c.words)
		if config.Progress != nil && len(t.tokens)%256 == 0 {
			config.Progress(len(t.tokens))
		}
	}
}

// merge replaces a pair by one symbol, in the words that may contain it.
func (t *trainer) merge(p pair, words []int32) {
	left, right := t.tokens[p.left], t.tokens[p.right]
	id := int32(len(t.tokens))
	t.tokens = append(t.tokens, left+right)
	t.merges = append(t.merges, [2]string{left, right})
	fresh := map[pair]bool{}
	for _, w := range words {
		t.mergeWord(p, id, w, fresh)
	}
	t.pairs[p].count = 0
	for q := range fresh {
		heap.Push(&t.queue, pairEntry{q, t.pairs[q].count})
	}
}

func (t *trainer) mergeWord(p pair, id, at int32, fresh map[pair]bool) {
	w := &t.words[at]
	change := func(left, right int32, count int) {
		q := pair{left, right}
		t.add(q, at, count)
		if count > 0 {
			fresh[q] = true
		}
	}
	out := w.ids[:0]
	for i := 0; i < len(w.ids); i++ {
		if i+1 == len(w.ids) || w.ids[i] != p.left || w.ids[i+1] != p.right {
			out = append(out, w.ids[i])
			continue
		}
		if n := len(out); n > 0 {
			change(out[n-1], p.left, -w.count)
			change(out[n-1], id, w.count)
		}
		if i+2 < len(w.ids) {
			change(p.right, w.ids[i+2], -w.count)
			change(id, w.ids[i+2], w.count)
		}
		out = append(out, id)
		i++
	}
	w.ids = out
}

// pairEntry is a pair in the queue, with its count when it was queued.
type pairEntry struct {
	pair
	count int
}

// pairQueue is a heap with the most frequent pair on top, and of equal ones that of the lowest ids.
type pairQueue []pairEntry

func (q pairQueue) Len() int { return len(q) }

func (q pairQueue) Less(i, j int) bool {
	a, b := q[i], q[j]
	return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.left, b.left), cmp.Compare(a.right, b.right)) < 0
}

func (q pairQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *pairQueue) Push(x any)   { *q = append(*q, x.(pairEntry)) }
func (q *pairQueue) Pop() any {
	old := *q
	last := old[len(old)-1]
	*q = old[:len(old)-1]
	return last
}

// file returns the content of the tokenizer.json.
func (t *trainer) file(config TrainConfig) ([]byte, error) {
	added := []any{}
	for id, token := range config.Special {
		added = append(added, map[string]any{"id": id, "content": token, "single_word": false, "lstrip": false,
			"rstrip": false, "normalized": false, "special": true})
	}
	vocab := make(map[string]int, len(t.tokens))
	for id, token := range t.tokens {
		vocab[token] = id
	}
	level := map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
		"use_regex": true}
	var pre any = level
	if config.Split != gpt2Pattern {
		level["use_regex"] = false
		pre = map[string]any{"type": "Sequence", "pretokenizers": []any{map[string]any{"type": "Split",
			"pattern": map[string]any{"Regex": config.Split}, "behavior": "Isolated", "invert": false}, level}}
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(map[string]any{"version": "1.0", "truncation": nil, "padding": nil, "added_tokens": added,
		"normalizer": nil, "pre_tokenizer": pre, "post_processor": nil,
		"decoder": map[string]any{"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true,
			"use_regex": true},
		"model": map[string]any{"type": "BPE", "dropout": nil, "unk_token": nil, "continuing_subword_prefix": nil,
			"end_of_word_suffix": nil, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
			"vocab": vocab, "merges": t.merges}})
	return out.Bytes(), err
}
