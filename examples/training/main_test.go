package main

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/internal/golden"
	"github.com/galley-ml/galley/parallel"
)

const page = "../../docs/training.md"

func Example() {
	main()
	// Output:
	// one device       4.860196 4.778075 4.562029 4.407270
	// data parallel    4.860196 4.778075 4.562029 4.407270
	// tensor parallel  4.860196 4.778075 4.562029 4.407270
	// pipelined        4.860196 4.778075 4.562029 4.407270
	// hybrid           4.860196 4.778075 4.562029 4.407270
	// after 4 steps: loss 4.2048, accuracy 0.12
}

// TestPage holds the page's programs to those that run, and its output to theirs.
func TestPage(t *testing.T) {
	for file, names := range map[string][]string{"main.go": {"start", "optimizer", "train", "oneDevice",
		"dataParallel", "tensorParallel", "pipelined", "hybrid"}, "main_test.go": {"Example"}} {
		for _, name := range names {
			text := golden.Function(t, file, name)
			if name == "Example" {
				_, out, _ := strings.Cut(text, "// Output:\n")
				text = "```\n" + regexp.MustCompile(`(?m)^\t// |^}$`).ReplaceAllString(out, "") + "```"
			} else {
				text = "```go\n" + text + "\n```"
			}
			golden.Section(t, page, name, strings.ReplaceAll(text, "\n\n```", "\n```"))
		}
	}
}

// TestPageHasAllFields looks for every field of what people fill in.
func TestPageHasAllFields(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []any{galley.Strategy{}, galley.FitConfig{}, galley.EngineConfig{},
		parallel.Plan{}} {
		typ := reflect.TypeOf(x)
		for i := range typ.NumField() {
			if name := typ.Field(i).Name; !strings.Contains(string(text), "`"+name+"`") {
				t.Errorf("the page does not tell of %s.%s", typ.Name(), name)
			}
		}
	}
}
