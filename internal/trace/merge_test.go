package trace

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// TestMerge: tracks of two traces stay apart, and times are as they were.
func TestMerge(t *testing.T) {
	write := func(group string, start float64) []byte {
		var b bytes.Buffer
		w := NewWriter(&b)
		at := w.Track(group, "work")
		w.Span(at, Span{Name: "step", Start: start, Duration: 1})
		w.Flow("message", at, start, w.Track(group, "other"), start+1)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	var out bytes.Buffer
	if err := Merge(&out, write("device 0", 1), write("device 1", 2)); err != nil {
		t.Fatal(err)
	}
	var events []struct {
		Name, Ph     string
		Pid, Tid, ID int
		Ts           float64
		Args         map[string]any
	}
	if err := json.Unmarshal(out.Bytes(), &events); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	names, starts, flows := map[int]string{}, map[int]float64{}, map[int]int{}
	for _, e := range events {
		switch {
		case e.Name == "process_name":
			names[e.Pid] = e.Args["name"].(string)
		case e.Ph == "X":
			starts[e.Pid] = e.Ts
		case e.Ph == "s":
			flows[e.ID]++
		}
	}
	if names[0] != "device 0" || names[1] != "device 1" || starts[0] != 1e6 || starts[1] != 2e6 ||
		len(flows) != 2 {
		t.Errorf("got %v, %v and %v", names, starts, flows)
	}
	for _, bad := range []string{"", "{}", `[{"ph":"X"}]`, `[{"pid":-1}]`, `[{"pid":1e99}]`} {
		if err := Merge(&out, []byte(bad)); err == nil || !strings.Contains(err.Error(), "trace: file 1 of 1") {
			t.Errorf("%q: got %v", bad, err)
		}
	}
}
