package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/data"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/op"
)

// task is a list of questions, and one example for each choice of each question.
type task struct {
	name      string
	questions []data.Question
	// begins are the indices of the first choice of each question among the examples.
	begins   []int
	examples data.Following
}

// questions reads the tasks and returns the function that answers them.
func (e *evaluating) questions() (func() error, error) {
	var begin []int32
	if e.Begin != "" {
		id, err := e.tokenizer.id(e.Begin)
		if err != nil {
			return nil, fmt.Errorf("--begin=%q: %w", e.Begin, err)
		}
		begin = []int32{id}
	}
	var tasks []*task
	for _, path := range e.Task {
		t, err := e.readTask(path, begin)
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, t)
	}
	return func() error { return e.answer(tasks) }, nil
}

func (e *evaluating) readTask(path string, begin []int32) (*task, error) {
	var skip func(error)
	if e.Skip {
		skip = func(err error) { fmt.Fprintln(os.Stderr, "galley: skipped:", err) }
	}
	questions, err := data.ReadQuestions([]string{path}, skip)
	if err != nil {
		return nil, err
	}
	t := &task{name: path, questions: questions}
	tokenizer := plainTokenizer(e.tokenizer.Tokenizer)
	for _, q := range questions {
		t.begins = append(t.begins, t.examples.Len())
		for _, choice := range q.Choices {
			if err := t.examples.Add(tokenizer, begin, q.Context, e.Delimiter+choice, e.Seq); err != nil {
				return nil, fmt.Errorf("%s: choice %q: %w", q.Place, choice, err)
			}
		}
	}
	return t, examplesFit(&t.examples, e.config.Vocab)
}

// answer scores all choices and prints the result of each task.
func (e *evaluating) answer(tasks []*task) error {
	pass := e.trainer.NewForward(func(batch []*op.Tensor) []*op.Tensor {
		logProbs, others := models.Scores(e.model, batch[0], batch[1])
		return []*op.Tensor{logProbs, others}
	})
	defer pass.Close()
	results := map[string]any{}
	for _, t := range tasks {
		scores, err := e.score(t, func(batch []array.Array) ([]array.Array, error) {
			return pass.Run(context.Background(), batch...)
		})
		if err != nil {
			return err
		}
		r := t.result(scores)
		if results[t.name] = r; !e.JSON {
			fmt.Printf("%s: %v\n", t.name, r)
		}
	}
	if e.JSON {
		return printJSON(map[string]any{"model": e.dir.name(), "results": results})
	}
	return nil
}

// score is the log-likelihood of an example, and whether greedy decoding would generate it.
type score struct {
	logLikelihood float64
	said          bool
}

// score runs all examples in batches, the longest first. Rows are padded to the next power of two, so that
// few programs are compiled.
func (e *evaluating) score(t *task, run func(batch []array.Array) ([]array.Array, error)) ([]score, error) {
	scores := make([]score, t.examples.Len())
	order := data.BySize(&t.examples)
	tell := progressPrinter()
	for at := 0; at < len(order); at += e.Batch {
		tell("answering", at, len(order))
		rows := order[at:min(at+e.Batch, len(order))]
		batch := data.PaddedBatch(&t.examples, rows, e.Batch, e.length(t.examples.Size(rows[0])))
		out, err := run(batch)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.name, err)
		}
		for i, row := range rows {
			scores[row] = score{out[0].At(i), out[1].At(i) == 0}
		}
	}
	return scores, nil
}

// length returns the length that rows of n tokens are padded to.
func (e *evaluating) length(n int) int {
	length := 16
	for length < n {
		length *= 2
	}
	return min(length, e.Seq)
}

// taskResult has the means over the questions of a task, those with choices and those without.
type taskResult struct {
	Questions  int      `json:"questions"`
	Accuracy   *measure `json:"acc,omitempty"`
	Normalized *measure `json:"acc_norm,omitempty"`
	Exact      *measure `json:"exact_match,omitempty"`
}

// measure is a share of the questions, and its standard error.
type measure struct {
	Value float64 `json:"value"`
	Error float64 `json:"stderr"`
}

func newMeasure(right, n int) *measure {
	if n == 0 {
		return nil
	}
	p := float64(right) / float64(n)
	return &measure{p, math.Sqrt(p * (1 - p) / float64(max(n-1, 1)))}
}

func (r taskResult) String() string {
	text := fmt.Sprintf("%d questions", r.Questions)
	for _, m := range []struct {
		name string
		*measure
	}{{"acc", r.Accuracy}, {"acc_norm", r.Normalized}, {"exact_match", r.Exact}} {
		if m.measure != nil {
			text += fmt.Sprintf(", %s %.4f ± %.4f", m.name, m.Value, m.Error)
		}
	}
	return text
}

// result returns the share of right answers.
func (t *task) result(scores []score) taskResult {
	chosen, right, normalized, exact, said := 0, 0, 0, 0, 0
	for i, q := range t.questions {
		own := scores[t.begins[i] : t.begins[i]+len(q.Choices)]
		if q.Exact {
			exact++
			if own[0].said {
				said++
			}
			continue
		}
		chosen++
		if best(own, func(int) float64 { return 1 }) == q.Gold {
			right++
		}
		if best(own, func(k int) float64 { return float64(max(len(q.Choices[k]), 1)) }) == q.Gold {
			normalized++
		}
	}
	return taskResult{len(t.questions), newMeasure(right, chosen), newMeasure(normalized, chosen),
		newMeasure(said, exact)}
}

// best returns the choice with the largest log-likelihood relative to its length.
func best(scores []score, length func(k int) float64) int {
	at := 0
	for k := range scores {
		if scores[k].logLikelihood/length(k) > scores[at].logLikelihood/length(at) {
			at = k
		}
	}
	return at
}

func printJSON(x any) error {
	text, err := json.MarshalIndent(x, "", "  ")
	if err != nil {
		return err
	}
	fmt.Println(string(text))
	return nil
}
