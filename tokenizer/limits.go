package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// truncationJSON is the section truncation: the longest encoding, and what is cut from longer ones.
type truncationJSON struct {
	Direction string `json:"direction"` // Right or Left: the end that is cut
	MaxLength int    `json:"max_length"`
	Strategy  string `json:"strategy"` // LongestFirst, OnlyFirst or OnlySecond
}

// paddingJSON is the section padding: the shortest encoding, and what is added to shorter ones.
type paddingJSON struct {
	Strategy  json.RawMessage `json:"strategy"`  // "BatchLongest" or {"Fixed": 12}
	Direction string          `json:"direction"` // Right or Left: where padding goes
	Multiple  int             `json:"pad_to_multiple_of"`
	ID        int32           `json:"pad_id"`
	TypeID    int32           `json:"pad_type_id"`

	fixed int
}

// check returns an error for unknown values.
func (c *truncationJSON) check() error {
	switch {
	case c.Direction != "" && c.Direction != "Right" && c.Direction != "Left":
		return fmt.Errorf("truncation: direction: got %q, want Right or Left", c.Direction)
	case c.MaxLength < 0:
		return fmt.Errorf("truncation: max_length: got %d, want at least 0", c.MaxLength)
	case !slices.Contains([]string{"LongestFirst", "OnlyFirst", "OnlySecond"}, c.Strategy):
		return fmt.Errorf("truncation: strategy: got %q, want LongestFirst, OnlyFirst or OnlySecond", c.Strategy)
	}
	return nil
}

func (p *paddingJSON) check() error {
	var word string
	var fixed struct{ Fixed *int }
	switch {
	case p.Direction != "Right" && p.Direction != "Left":
		return fmt.Errorf("padding: direction: got %q, want Right or Left", p.Direction)
	case json.Unmarshal(p.Strategy, &word) == nil && word == "BatchLongest":
	case json.Unmarshal(p.Strategy, &fixed) == nil && fixed.Fixed != nil && *fixed.Fixed >= 0:
		p.fixed = *fixed.Fixed
	default:
		return fmt.Errorf("padding: strategy: got %s, want \"BatchLongest\" or {\"Fixed\": 12}", p.Strategy)
	}
	return nil
}

// setLimits sets the truncation and padding of the file.
func (t *Tokenizer) setLimits(truncation *truncationJSON, padding *paddingJSON) error {
	if truncation != nil {
		if err := truncation.check(); err != nil {
			return err
		}
	}
	if padding != nil {
		if err := padding.check(); err != nil {
			return err
		}
	}
	t.truncation, t.padding = truncation, padding
	return nil
}

// Limited reports whether the file has truncation or padding, which only EncodeLimited applies.
func (t *Tokenizer) Limited() bool { return t.truncation != nil || t.padding != nil }

// EncodeLimited is like EncodeOffsets, or EncodePair if there is a second text, truncated and padded as the
// file's sections truncation and padding say.
func (t *Tokenizer) EncodeLimited(first string, second *string) (Encoding, error) {
	a := t.encoding(first)
	var b *Encoding
	if second != nil {
		e := t.encoding(*second).typed(1)
		b = &e
	}
	if t.truncation != nil {
		room := max(0, t.truncation.MaxLength-t.around(b != nil))
		if err := t.truncation.cut(&a, b, room); err != nil {
			return Encoding{}, err
		}
	}
	out := t.process(a, b)
	if t.padding != nil {
		out = t.padding.pad(out)
	}
	return out, nil
}

// around returns how many special tokens post-processors add to a text, or a pair.
func (t *Tokenizer) around(pair bool) int {
	if pair {
		return len(t.process(Encoding{}, &Encoding{}).IDs)
	}
	return len(t.process(Encoding{}, nil).IDs)
}

// cut truncates a and b so that both together have room tokens.
func (c *truncationJSON) cut(a, b *Encoding, room int) error {
	n, m := len(a.IDs), 0
	if b != nil {
		m = len(b.IDs)
	}
	excess := n + m - room
	if excess <= 0 {
		return nil
	}
	left := room // tokens left of the text that is truncated
	switch {
	case room == 0:
		n, m, left = 0, 0, 1
	case c.Strategy == "OnlyFirst":
		n -= excess
		left = n
	case c.Strategy == "OnlySecond" && b == nil:
		return errors.New("truncation: OnlySecond: there is no second text")
	case c.Strategy == "OnlySecond":
		m -= excess
		left = m
	case b == nil:
		n = room
	default:
		n, m = longestFirst(n, m, room)
	}
	if left < 1 {
		return fmt.Errorf("truncation: %s: the text is no longer than what is to go, %d tokens", c.Strategy, excess)
	}
	*a = a.part(n, c.Direction)
	if b != nil {
		*b = b.part(m, c.Direction)
	}
	return nil
}

// longestFirst returns how many tokens of two texts stay: all of the shorter one if it is at most half of
// room, else half of room each, an odd one to the longer text, or to the second if either would fill room.
func longestFirst(n, m, room int) (int, int) {
	short := min(n, m, room/2)
	if n > m && m < room {
		return room - short, short
	}
	return short, room - short
}

// part returns the first n tokens, or the last n if the left ones are cut.
func (e Encoding) part(n int, direction string) Encoding {
	begin, end := 0, min(n, len(e.IDs))
	if direction == "Left" {
		begin, end = len(e.IDs)-end, len(e.IDs)
	}
	return Encoding{IDs: e.IDs[begin:end], Offsets: e.Offsets[begin:end], TypeIDs: e.TypeIDs[begin:end],
		Special: e.Special[begin:end], matched: e.matched[begin:end]}
}

// pad returns the encoding padded to the length that the file sets.
func (p *paddingJSON) pad(e Encoding) Encoding {
	length := len(e.IDs)
	if p.fixed > 0 {
		length = p.fixed
	}
	if p.Multiple > 0 && length%p.Multiple > 0 {
		length += p.Multiple - length%p.Multiple
	}
	missing := length - len(e.IDs)
	if missing <= 0 {
		return e
	}
	pads := Encoding{}.appendSpecial(slices.Repeat([]int32{p.ID}, missing), p.TypeID)
	if p.Direction == "Left" {
		return pads.append(e)
	}
	return e.append(pads)
}
