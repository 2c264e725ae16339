package data

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Question is one question of a task: a context, and the texts that may follow it.
type Question struct {
	Context string
	// Choices are texts that may follow; Gold is the index of the right one. An exact question has one choice,
	// and is answered right if greedy decoding would generate it.
	Choices []string
	Gold    int
	Exact   bool
	// Place is the file and line.
	Place string
}

// ReadQuestions reads the questions of JSON Lines files in the common formats of lm-evaluation-harness's
// tasks. The context is the field context, ctx, query, question, prompt, goal, passage, input or sentence.
// Choices are choices, a list or with text and label as in ARC, endings, options, sol1 and sol2, or option1
// and option2; the right one is gold, label, answer or answerKey: a number, a letter, or the choice itself.
// Without choices the expected text is target, completion, continuation, output or answer. skip, if set, is
// called with the errors of lines that cannot be read; otherwise such an error ends reading.
func ReadQuestions(paths []string, skip func(error)) ([]Question, error) {
	var list []Question
	for l, err := range Lines(paths) {
		if err != nil {
			return nil, err
		}
		q, err := parseQuestion(l.JSON)
		if err != nil {
			err = fmt.Errorf("data: %s: %w", l.Place, err)
			if skip == nil {
				return nil, err
			}
			skip(err)
			continue
		}
		q.Place = l.Place
		list = append(list, q)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("data: %q: no questions", paths)
	}
	return list, nil
}

// The names of a question's fields in the files of tasks.
var (
	contextKeys = []string{"context", "ctx", "query", "question", "prompt", "goal", "passage", "input",
		"sentence"}
	choiceKeys = []string{"choices", "endings", "options"}
	pairKeys   = [][2]string{{"sol1", "sol2"}, {"option1", "option2"}}
	goldKeys   = []string{"gold", "label", "answer", "answerKey"}
	targetKeys = []string{"target", "completion", "continuation", "output", "answer"}
)

func parseQuestion(line []byte) (q Question, err error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(line, &fields); err != nil {
		return q, err
	}
	q.Context, err = firstText(fields, contextKeys)
	if err != nil {
		return q, err
	}
	labels, err := q.readChoices(fields)
	if err != nil {
		return q, err
	}
	if q.Choices == nil {
		text, err := firstText(fields, targetKeys)
		q.Choices, q.Exact = []string{text}, true
		return q, err
	}
	q.Gold, err = q.gold(fields, labels)
	return q, err
}

// firstText returns the text of the first key that is present.
func firstText(fields map[string]json.RawMessage, keys []string) (string, error) {
	for _, key := range keys {
		raw, ok := fields[key]
		if !ok {
			continue
		}
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return "", fmt.Errorf("%s: want a text", key)
		}
		return text, nil
	}
	return "", fmt.Errorf("want one of %s", strings.Join(keys, ", "))
}

// readChoices reads the choices, and returns their labels if the line has them.
func (q *Question) readChoices(fields map[string]json.RawMessage) (labels []string, err error) {
	for _, pair := range pairKeys {
		if a, b := fields[pair[0]], fields[pair[1]]; a != nil && b != nil {
			q.Choices = make([]string, 2)
			err := errors.Join(json.Unmarshal(a, &q.Choices[0]), json.Unmarshal(b, &q.Choices[1]))
			return []string{"1", "2"}, err
		}
	}
	for _, key := range choiceKeys {
		raw, ok := fields[key]
		if !ok {
			continue
		}
		var named struct{ Text, Label []string }
		if json.Unmarshal(raw, &q.Choices) != nil {
			q.Choices = nil
			if json.Unmarshal(raw, &named) == nil {
				q.Choices = named.Text
			}
		}
		if len(q.Choices) < 2 || named.Label != nil && len(named.Label) != len(q.Choices) {
			return nil, fmt.Errorf("%s: want two texts or more, with as many labels if any", key)
		}
		return named.Label, nil
	}
	return nil, nil
}

// gold returns the index of the right choice.
func (q *Question) gold(fields map[string]json.RawMessage, labels []string) (int, error) {
	for _, key := range goldKeys {
		raw, ok := fields[key]
		if !ok {
			continue
		}
		var n int
		var text string
		switch {
		case json.Unmarshal(raw, &n) == nil:
		case json.Unmarshal(raw, &text) == nil:
			n = q.goldOf(text, labels)
		default:
			n = -1
		}
		if n < 0 || n >= len(q.Choices) {
			return 0, fmt.Errorf("%s: got %s, want a number below %d, a letter or one of the choices", key, raw,
				len(q.Choices))
		}
		return n, nil
	}
	return 0, fmt.Errorf("want one of %s", strings.Join(goldKeys, ", "))
}

// goldOf returns the index of the choice with a label, a letter or a text; -1 is none.
func (q *Question) goldOf(text string, labels []string) int {
	if i := slices.Index(labels, text); i >= 0 {
		return i
	}
	if i := slices.Index(q.Choices, text); i >= 0 {
		return i
	}
	if n, err := strconv.Atoi(text); err == nil {
		return n
	}
	if len(text) == 1 && text[0] >= 'A' && text[0] <= 'Z' {
		return int(text[0] - 'A')
	}
	return -1
}

// Following has contexts with continuations, as examples whose labels are only the continuation: examples
// that are too long lose the beginning of their context.
type Following struct{ list []chat }

// Add appends a context and its continuation, follows. The whole text is tokenized at once; the tokens after
// as many as the context alone has are the continuation's.
func (f *Following) Add(t Tokenizer, begin []int32, context, follows string, seq int) error {
	trimmed := strings.TrimRight(context, " ")
	follows = context[len(trimmed):] + follows // a space belongs to the word after it
	whole, first := t.Encode(trimmed+follows), t.Encode(trimmed)
	n := min(len(first), len(whole))
	ids := append(slices.Clone(begin), whole...)
	n += len(begin)
	switch {
	case n == len(ids):
		return errors.New("nothing follows the context")
	case n == 0:
		return errors.New("there is no context: want a token to begin with")
	case len(ids)-n > seq:
		return fmt.Errorf("what follows has %d tokens: want at most %d", len(ids)-n, seq)
	}
	if cut := len(ids) - (seq + 1); cut > 0 {
		ids, n = ids[cut:], n-cut
	}
	answer := make([]bool, len(ids))
	for i := n; i < len(ids); i++ {
		answer[i] = true
	}
	f.list = append(f.list, chat{ids, answer})
	return nil
}

// Len returns the number of examples.
func (f *Following) Len() int { return len(f.list) }

// Size returns the number of input tokens of example i.
func (f *Following) Size(i int) int { return len(f.list[i].ids) - 1 }

// Fill writes the inputs and labels of example i.
func (f *Following) Fill(i int, ids, labels []int32) { f.list[i].fill(ids, labels) }
