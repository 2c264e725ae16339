package process_test

import (
	"context"
	"testing"

	"github.com/galley-ml/galley/internal/comm"
)

// FuzzNote posts a note of any bytes to a process whose rank waits for the sender: it fails or goes on
// waiting, and never panics.
func FuzzNote(f *testing.F) {
	f.Add([]byte{0})
	f.Add([]byte{0, 0, 0, 0, 4, 2, 0, 1, 0, 0, 1, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Add([]byte{0, 2, 0, 0, 0, 0})
	f.Add([]byte{0, 4, 0, 0, 0, 1, 0, 4, 2, 0, 1, 0, 0, 0})
	f.Fuzz(func(t *testing.T, note []byte) {
		if len(note) > comm.NoteBytes {
			return
		}
		j := newJob(2, 0)
		w, err := j.processes[0].NewWorld([]int{0, 1})
		if err != nil {
			t.Fatal(err)
		}
		err = w.Run(t.Context(), func(_ context.Context, c comm.Comm) error {
			g, err := c.Group(nil)
			if err != nil {
				return err
			}
			p := g.StartBarrier()
			j.net.Transport(1).Post(0, note)
			j.net.Transport(1).Post(0, nil) // an empty note is the end of the process
			_, err = p.Wait()
			return err
		})
		if err == nil {
			t.Skip("a note that completes the barrier")
		}
	})
}
