package strict

import "github.com/goccy/go-yaml/token"

// What a text may have. The library takes time and memory that grow with the square of depths and of the keys
// of one mapping; no file that means something comes near.
const (
	maxText  = 1 << 20
	maxDepth = 64
	maxKeys  = 2048
)

// bounded refuses what would take the library long, and a second document, which it would not read.
func bounded(tokens token.Tokens) error {
	var b bounds
	for _, t := range tokens {
		if message := b.next(t); message != "" {
			e := &Error{Message: message}
			e.Line, e.Column = place(t)
			return e
		}
	}
	return nil
}

// bounds counts the depth and the keys of what is open at a token.
type bounds struct {
	// blocks are the columns of block collections that are open, each further right than the one before, with
	// their keys.
	blocks []level
	// flows are the flow collections that are open.
	flows []level
	// begun is that the document has content, ended that it is over.
	begun, ended bool
}

type level struct{ column, keys int }

func (b *bounds) next(t *token.Token) (mistake string) {
	switch t.Type {
	case token.CommentType, token.DirectiveType:
		return ""
	case token.DocumentEndType:
		b.ended = b.begun
		return ""
	case token.DocumentHeaderType:
		if b.ended = b.ended || b.begun; !b.ended {
			return ""
		}
	}
	if b.ended {
		return "a second document: want one"
	}
	b.begun = true
	switch t.Type {
	case token.SequenceStartType, token.MappingStartType:
		b.flows = append(b.flows, level{})
	case token.SequenceEndType, token.MappingEndType:
		b.flows = b.flows[:max(0, len(b.flows)-1)]
	case token.SequenceEntryType, token.MappingKeyType:
		b.block(t, 0)
	case token.MappingValueType:
		if b.key(t) > maxKeys {
			return "it has too many keys in one mapping"
		}
	}
	if len(b.blocks)+len(b.flows) > maxDepth {
		return "it is nested too deeply"
	}
	return ""
}

// block opens the collection at a token's column, unless it is, closes what is right of it and counts its
// keys.
func (b *bounds) block(t *token.Token, keys int) int {
	if len(b.flows) > 0 || t.Position == nil {
		return 0
	}
	column := t.Position.Column
	n := len(b.blocks)
	for n > 0 && b.blocks[n-1].column > column {
		n--
	}
	if b.blocks = b.blocks[:n]; n == 0 || b.blocks[n-1].column < column {
		b.blocks = append(b.blocks, level{column: column})
	}
	last := &b.blocks[len(b.blocks)-1]
	last.keys += keys
	return last.keys
}

// key counts the key before a colon among those of its mapping.
func (b *bounds) key(colon *token.Token) int {
	if n := len(b.flows); n > 0 {
		b.flows[n-1].keys++
		return b.flows[n-1].keys
	}
	if colon.Prev == nil {
		return 0
	}
	return b.block(colon.Prev, 1)
}
