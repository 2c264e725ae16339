package bench

import (
	"bufio"
	_ "embed" // the scripts of peers
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

//go:embed burgers.py
var burgersScript string

// peer is another framework in a process of its own that runs steps on request.
type peer struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// startPeer runs a script with a Python interpreter. Its first line names the framework; without one the peer
// is nil and the name is the reason.
func startPeer(python, script string, args ...string) (*peer, string, error) {
	path, err := exec.LookPath(python)
	if err != nil {
		return nil, err.Error(), nil
	}
	cmd := exec.Command(path, append([]string{"-c", script}, args...)...)
	cmd.Stderr = os.Stderr
	p := &peer{cmd: cmd}
	if p.in, err = cmd.StdinPipe(); err != nil {
		return nil, "", err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	p.out = bufio.NewReader(out)
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	line, err := p.out.ReadString('\n')
	kind, name, _ := strings.Cut(strings.TrimSpace(line), " ")
	if err == nil && kind == "torch" {
		return p, name, nil
	}
	p.close()
	if kind == "none" {
		return nil, name, nil
	}
	return nil, "", fmt.Errorf("%s does not answer: %w", path, err)
}

// turn lets the peer run steps and returns the best milliseconds of one, and the loss of the first.
func (p *peer) turn(steps int) (ms, loss float64, err error) {
	if _, err := fmt.Fprintln(p.in, steps); err != nil {
		return 0, 0, err
	}
	_, err = fmt.Fscan(p.out, &ms, &loss)
	return ms, loss, err
}

// close ends the process by closing its input.
func (p *peer) close() {
	p.in.Close()
	_ = p.cmd.Wait()
}
