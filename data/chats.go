package data

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/galley-ml/galley/tokenizer"
)

// ChatConfig configures how conversations become tokens.
type ChatConfig struct {
	// Tokenizer makes tokens, without special tokens around a text.
	Tokenizer Tokenizer
	// Template renders conversations; nil is ChatML.
	Template ChatTemplate
	// End follows answers that are plain text, not messages.
	End string
	// Seq is the largest number of tokens of an example: the rest is cut off, and an example whose answer would
	// be cut off is left out.
	Seq int
	// Skip, if set, is called with the error of a line that cannot be read, which is then left out. Without it
	// such an error ends reading.
	Skip func(error)
}

// Chats are conversations whose answers are learned. They implement Examples: labels outside of answers are
// ignored.
type Chats struct {
	list []chat
	// Cut counts the ones that were too long, Left those of them left out because no answer was within Seq.
	Cut, Left int
}

// chat is the tokens of a conversation, and which of them belong to an answer.
type chat struct {
	ids    []int32
	answer []bool
}

// Len returns the number of conversations.
func (c *Chats) Len() int { return len(c.list) }

// Size returns the number of input tokens of conversation i.
func (c *Chats) Size(i int) int { return len(c.list[i].ids) - 1 }

// Fill writes the inputs and labels of conversation i.
func (c *Chats) Fill(i int, ids, labels []int32) { c.list[i].fill(ids, labels) }

func (c chat) fill(ids, labels []int32) {
	n := len(c.ids) - 1
	copy(ids[:n], c.ids)
	for k := range n {
		labels[k] = IgnoreLabel
		if c.answer[k+1] {
			labels[k] = c.ids[k+1]
		}
	}
}

// Split holds out a share of the conversations, chosen by the seed, as Corpus.Split does.
func (c *Chats) Split(held float64, seed uint64) (train, valid *Chats, err error) {
	train, valid = &Chats{}, &Chats{}
	inHeld, err := heldOut(len(c.list), held, seed)
	if err != nil {
		return nil, nil, err
	}
	for i, x := range c.list {
		if inHeld(i) {
			valid.list = append(valid.list, x)
		} else {
			train.list = append(train.list, x)
		}
	}
	return train, valid, nil
}

// ReadChats reads conversations from JSON Lines files. A line has messages, each with role and content, or
// conversations in ShareGPT's format, or a prompt and a completion, both texts or both messages. The labels
// are the assistant's messages, or the completion.
func ReadChats(paths []string, c ChatConfig) (*Chats, error) {
	out := &Chats{}
	err := c.lines(paths, func(raw []byte) error {
		m, err := parseChat(raw, c)
		if err != nil {
			return err
		}
		x, cut, err := c.encode(m)
		if err != nil {
			return err
		}
		if cut {
			out.Cut++
		}
		if x.ids == nil {
			out.Left++
			return nil
		}
		out.list = append(out.list, x)
		return nil
	})
	if err == nil && len(out.list) == 0 {
		err = fmt.Errorf("data: %q: no conversation with an answer within %d tokens", paths, c.Seq)
	}
	return out, err
}

// lines calls read for every line; a line that fails is skipped, or ends reading without Skip.
func (c ChatConfig) lines(paths []string, read func(raw []byte) error) error {
	for l, err := range Lines(paths) {
		if err != nil {
			return err
		}
		if err := read(l.JSON); err != nil {
			err = fmt.Errorf("data: %s: %w", l.Place, err)
			if c.Skip == nil {
				return err
			}
			c.Skip(err)
		}
	}
	return nil
}

func (c ChatConfig) template() ChatTemplate {
	if c.Template == nil {
		return ChatML{}
	}
	return c.Template
}

func parseChat(raw []byte, c ChatConfig) (marked, error) {
	var line struct {
		Messages, Conversations, Prompt, Completion *turn
	}
	if err := json.Unmarshal(raw, &line); err != nil {
		return marked{}, err
	}
	if line.Messages == nil {
		line.Messages = line.Conversations
	}
	switch {
	case line.Messages != nil && line.Messages.messages == nil:
		return marked{}, errors.New("messages: want a list")
	case line.Messages != nil:
		return conversation(c.template(), line.Messages.messages)
	case line.Prompt != nil && line.Completion != nil:
		return answered(c.template(), *line.Prompt, *line.Completion, c.End)
	}
	return marked{}, errors.New("want messages, or a prompt and a completion")
}

// encode returns the tokens of a text, cut to Seq; empty if no answer would be left.
func (c ChatConfig) encode(m marked) (x chat, cut bool, err error) {
	ids, begins, err := c.tokens(m.text)
	if err != nil {
		return x, false, err
	}
	if cut = len(ids) > c.Seq+1; cut {
		ids = ids[:c.Seq+1]
	}
	answer, some := make([]bool, len(ids)), false
	for i := range ids {
		for _, a := range m.answers {
			answer[i] = answer[i] || begins[i] >= a[0] && begins[i] < a[1]
		}
		some = some || i > 0 && answer[i]
	}
	if !some {
		if !cut {
			return x, cut, errors.New("its answer has no tokens")
		}
		return x, cut, nil
	}
	return chat{ids, answer}, cut, nil
}

// tokens returns the tokens of a text, and the byte at which each begins.
func (c ChatConfig) tokens(text string) (ids []int32, begins []int, err error) {
	switch t := c.Tokenizer.(type) {
	case Bytes:
		ids = t.Encode(text)
		for i := range ids {
			begins = append(begins, i)
		}
		return ids, begins, nil
	case *tokenizer.Tokenizer:
		e := t.WithoutSpecial().EncodeOffsets(text)
		at := byteOffsets(text)
		for _, o := range e.Offsets {
			begins = append(begins, at[o[0]])
		}
		return e.IDs, begins, nil
	}
	return nil, nil, fmt.Errorf("a %T does not tell where tokens begin: want one of package tokenizer, or Bytes",
		c.Tokenizer)
}

// byteOffsets returns the byte offset of each character of a text, and of its end.
func byteOffsets(text string) []int {
	at := make([]int, 0, utf8.RuneCountInString(text)+1)
	for i := range text {
		at = append(at, i)
	}
	return append(at, len(text))
}
