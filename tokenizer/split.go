package tokenizer

import (
	"slices"
	"strings"
)

// splitter is one step that cuts text into pieces. No piece is empty.
type splitter interface {
	split(a aligned, piece func(aligned))
}

// behavior says what happens to the matches of a split.
type behavior uint8

const (
	isolated           behavior = iota // each match is a piece
	removed                            // matches are dropped
	mergedWithPrevious                 // a match ends the piece before it
	mergedWithNext                     // a match begins the piece after it
	contiguous                         // consecutive matches are one piece
)

// matchSplit cuts a text at the matches of a matcher.
type matchSplit struct {
	matcher  matcher
	behavior behavior
	invert   bool // the text between matches is treated as the match
}

func (s matchSplit) split(a aligned, piece func(aligned)) {
	if s.behavior == isolated || s.behavior == removed {
		s.each(a.text, func(c cut) {
			if c.begin < c.end && (s.behavior == isolated || !c.match) {
				piece(a.slice(c.begin, c.end))
			}
		})
		return
	}
	var cuts []cut
	s.each(a.text, func(c cut) { cuts = append(cuts, c) })
	for _, c := range s.behavior.merge(cuts) {
		if c.begin < c.end {
			piece(a.slice(c.begin, c.end))
		}
	}
}

// cut is a range of text that is a match, or is between matches.
type cut struct {
	begin, end int
	match      bool
}

func (s matchSplit) each(text string, each func(cut)) {
	done := 0
	s.matcher.each(text, func(begin, end int) {
		if done < begin {
			each(cut{done, begin, s.invert})
		}
		each(cut{begin, end, !s.invert})
		done = end
	})
	if done < len(text) {
		each(cut{done, len(text), s.invert})
	}
}

// merge joins neighbouring cuts as the behavior says.
func (b behavior) merge(cuts []cut) []cut {
	if b == mergedWithNext { // the same as mergedWithPrevious on the reversed list
		slices.Reverse(cuts)
	}
	var out []cut
	matched := false // the previous cut was a match
	for _, c := range cuts {
		joins := c.match && !matched
		if b == contiguous {
			joins = c.match == matched
		}
		matched = c.match
		if joins && len(out) > 0 {
			last := &out[len(out)-1]
			last.begin, last.end = min(last.begin, c.begin), max(last.end, c.end)
			continue
		}
		out = append(out, c)
	}
	if b == mergedWithNext {
		slices.Reverse(out)
	}
	return out
}

// byteLevel puts a space before text that begins without one, and cuts by GPT-2's pattern. Bytes become
// letters later.
type byteLevel struct {
	prefixSpace bool
	words       splitter // nil does not cut
}

func (s byteLevel) split(a aligned, piece func(aligned)) {
	if s.prefixSpace && a.text[0] != ' ' {
		a = prepend(a, " ")
	}
	if s.words == nil {
		piece(a)
		return
	}
	s.words.split(a, piece)
}

// letterSplit writes bytes as letters if ByteLevel is not the last step.
type letterSplit struct{}

func (letterSplit) split(a aligned, piece func(aligned)) { piece(letters(a)) }

// metaspace replaces spaces by a mark, puts one before the text, and cuts before each.
type metaspace struct {
	mark string
	when prependScheme
	cuts bool
}

// prependScheme chooses which texts get a mark before them.
type prependScheme string

const (
	prependAlways prependScheme = "always"
	prependFirst  prependScheme = "first" // only at the beginning of the input, not after an added token
	prependNever  prependScheme = "never"
)

func (s metaspace) split(a aligned, piece func(aligned)) {
	a = replace(literal(" "), s.mark)(a)
	wanted := s.when == prependAlways || s.when == prependFirst && a.first
	if wanted && !strings.HasPrefix(a.text, s.mark) {
		a = prepend(a, s.mark)
	}
	if !s.cuts {
		piece(a)
		return
	}
	matchSplit{matcher: literal(s.mark), behavior: mergedWithNext}.split(a, piece)
}
