package trace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// Merge writes the traces of several writers as one: groups of tracks and arrows get numbers of their own.
// Times are left as they are: whoever wrote them began to count at the same moment.
func Merge(w io.Writer, traces ...[]byte) error {
	groups, flows, written := 0, 0, 0
	for i, text := range traces {
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		var events []map[string]any
		if err := d.Decode(&events); err != nil {
			return fmt.Errorf("trace: file %d of %d: %w", i+1, len(traces), err)
		}
		mostGroup, mostFlow := -1, 0
		for _, e := range events {
			pid, err := shift(e, "pid", groups)
			if err != nil {
				return fmt.Errorf("trace: file %d of %d: %w", i+1, len(traces), err)
			}
			mostGroup = max(mostGroup, pid)
			if e["name"] == "process_sort_index" {
				e["args"] = map[string]any{"sort_index": pid + groups}
			}
			if _, has := e["id"]; has {
				id, err := shift(e, "id", flows)
				if err != nil {
					return fmt.Errorf("trace: file %d of %d: %w", i+1, len(traces), err)
				}
				mostFlow = max(mostFlow, id)
			}
			line, err := json.Marshal(e)
			if err != nil {
				return err
			}
			before := ",\n"
			if written == 0 {
				before = "[\n"
			}
			if _, err := fmt.Fprintf(w, "%s%s", before, line); err != nil {
				return err
			}
			written++
		}
		groups, flows = groups+mostGroup+1, flows+mostFlow
	}
	if written == 0 {
		if _, err := io.WriteString(w, "["); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, "\n]\n")
	return err
}

// shift adds to a number of an event, and is what it was.
func shift(e map[string]any, name string, by int) (int, error) {
	n, ok := e[name].(json.Number)
	if !ok {
		return 0, fmt.Errorf("an event without %s: want Chrome's trace events", name)
	}
	x, err := n.Int64()
	if err != nil || x < 0 || x > 1<<31 {
		return 0, fmt.Errorf("an event with %s %v: want a number that is not negative", name, n)
	}
	e[name] = int(x) + by
	return int(x), nil
}
