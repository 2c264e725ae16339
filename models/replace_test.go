package models

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/galley-ml/galley/nn"
)

const saveChild = "GALLEY_TEST_SAVE_OVER"

// variants returns two models of different shapes and weights, in several files.
func variants(t *testing.T) [2]Model {
	t.Helper()
	s := newSession(t)
	return [2]Model{
		smallModel(t, "llama", "", nn.Config{Scope: s, Seed: 1}),
		smallModel(t, "llama", `, "hidden_size": 32, "num_hidden_layers": 2`, nn.Config{Scope: s, Seed: 2}),
	}
}

// TestSaveOver is the process that TestSaveKilled kills: it saves one model over the other for ever.
func TestSaveOver(t *testing.T) {
	dir := os.Getenv(saveChild)
	if dir == "" {
		t.Skip("it is run by TestSaveKilled")
	}
	all := variants(t)
	for i := 0; ; i++ {
		if err := Save(dir, all[i%2], SaveConfig{ShardBytes: 3000, Tokenizer: fmt.Appendf(nil, `{"of":%d}`,
			i%2)}); err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			fmt.Println("saving")
		}
	}
}

// TestSaveKilled kills a process that saves over a model at random moments: what is there is one model or the
// other, whole.
func TestSaveKilled(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("directories are swapped on Linux only")
	}
	dir := filepath.Join(t.TempDir(), "model")
	all, seen := variants(t), [2]int{}
	kills := 30
	if testing.Short() {
		kills = 8
	}
	for k := range kills {
		c := exec.Command(os.Args[0], "-test.run=^TestSaveOver$", "-test.v")
		c.Env = append(os.Environ(), saveChild+"="+dir)
		out, err := c.StdoutPipe()
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		for buf := make([]byte, 256); ; {
			n, err := out.Read(buf)
			if err != nil || bytes.Contains(buf[:n], []byte("saving")) {
				break
			}
		}
		time.Sleep(time.Duration(k*700%11000) * time.Microsecond)
		_ = c.Process.Kill()
		_ = c.Wait()
		m, err := Load(dir, nn.Config{Scope: newSession(t)})
		if err != nil {
			t.Fatalf("after %d kills: %v", k+1, err)
		}
		which := 0
		if m.Config().Hidden == 32 {
			which = 1
		}
		seen[which]++
		sameModel(t, all[which], m)
		text, err := os.ReadFile(filepath.Join(dir, tokenizerName))
		if err != nil || string(text) != fmt.Sprintf(`{"of":%d}`, which) {
			t.Fatalf("after %d kills: the tokenizer of model %d is %q, %v", k+1, which, text, err)
		}
	}
	t.Logf("found the models %v times", seen)
	if err := Save(dir, all[0], SaveConfig{}); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(dir), ".model.saving-*")); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

// TestSaveBeside: what else is in the directory stays, in each way of replacing it, and files are as the
// umask says.
func TestSaveBeside(t *testing.T) {
	old := syscall.Umask(0o027)
	defer syscall.Umask(old)
	all := variants(t)
	for _, way := range []string{"swap", "link", "working directory"} {
		t.Run(way, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "model")
			if err := os.MkdirAll(filepath.Join(dir, "more"), 0o777); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"README.md", "more/notes.txt", "generation_config.json"} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			to := dir
			switch way {
			case "link":
				to += "-link"
				if err := os.Symlink(dir, to); err != nil {
					t.Fatal(err)
				}
			case "working directory":
				t.Chdir(dir)
				to = "."
			}
			for i, m := range []Model{all[0], all[1], all[0]} {
				if err := Save(to, m, SaveConfig{ShardBytes: int64(i%2) * 3000}); err != nil {
					t.Fatal(err)
				}
				back, err := Load(dir, nn.Config{Scope: newSession(t)})
				if err != nil {
					t.Fatal(err)
				}
				sameModel(t, m, back)
			}
			for _, name := range []string{"README.md", "more/notes.txt", "generation_config.json"} {
				if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(text) != name {
					t.Errorf("%s: %q, %v", name, text, err)
				}
			}
			entries, _ := os.ReadDir(dir)
			for _, e := range entries {
				info, err := e.Info()
				if err == nil && !e.IsDir() && info.Mode().Perm() != 0o640 {
					t.Errorf("%s: mode %v, want what the umask leaves", e.Name(), info.Mode())
				}
				if strings.Contains(e.Name(), "saving") || strings.Contains(e.Name(), "-of-") {
					t.Errorf("%s is left", e.Name())
				}
			}
		})
	}
}
