package data

// IgnoreLabel is the label of a position that the loss ignores, as PyTorch's ignore_index.
const IgnoreLabel = -100

// Examples are training examples: tokens, and a label for each.
type Examples interface {
	Len() int
	// Size returns the number of tokens of example i.
	Size(i int) int
	// Fill writes the tokens of example i and their labels, Size(i) of each; the loss ignores labels of
	// IgnoreLabel.
	Fill(i int, ids, labels []int32)
}

// Pieces returns documents as examples of at most seq tokens, with the next tokens as labels. A longer
// document is cut, and the last token of a piece predicts the first of the next. So every token is an input
// once, and a label once unless it is a document's first.
func Pieces(c *Corpus, seq int) Examples {
	p := &pieces{corpus: c, seq: seq}
	for d := range c.Documents() {
		n := c.DocumentLen(d)
		for from := 0; from < n; from += seq {
			p.list = append(p.list, piece{d, from})
		}
	}
	return p
}

type pieces struct {
	corpus *Corpus
	seq    int
	list   []piece
}

type piece struct{ document, from int }

func (p *pieces) Len() int { return len(p.list) }

func (p *pieces) Size(i int) int {
	x := p.list[i]
	return min(p.seq, p.corpus.DocumentLen(x.document)-x.from)
}

func (p *pieces) Fill(i int, ids, labels []int32) {
	x := p.list[i]
	n := len(ids)
	p.corpus.ReadDocument(x.document, ids, x.from)
	copy(labels, ids[1:])
	labels[n-1] = IgnoreLabel
	if x.from+n < p.corpus.DocumentLen(x.document) {
		p.corpus.ReadDocument(x.document, labels[n-1:], x.from+n)
	}
}
