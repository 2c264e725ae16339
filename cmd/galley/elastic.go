package main

import (
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/internal/elastic/agent"
	"github.com/galley-ml/galley/internal/elastic/epoch"
	"github.com/galley-ml/galley/internal/elastic/etcd"
	"github.com/galley-ml/galley/internal/elastic/store"
	"github.com/galley-ml/galley/internal/export"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/pipeline"
)

// elasticFlags are the flags of elastic jobs.
type elasticFlags struct {
	Elastic string        `help:"Go on when processes or hosts are lost, and when others come: at least and at most how many hosts." placeholder:"MIN:MAX" group:"Elastic"`
	Etcd    string        `help:"Where hosts coordinate: etcd's URLs, or embedded=HOST[,HOST,HOST] for an etcd beside the agents of these hosts; without it there is one host." placeholder:"URL" group:"Elastic"`
	Job     string        `help:"Name of the job; jobs of one etcd have different ones." default:"job" group:"Elastic"`
	Host    string        `help:"Name of this host in the job; that of the machine by default." placeholder:"NAME" group:"Elastic"`
	Address string        `help:"Name or number by which other hosts reach this one." placeholder:"ADDRESS" group:"Elastic"`
	Memory  string        `help:"Directory in memory (tmpfs) for snapshots." default:"/dev/shm" placeholder:"DIR" group:"Elastic"`
	Lease   time.Duration `help:"How long a host may be silent before the others go on without it." default:"5s" group:"Elastic"`
}

var plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// check returns an error if the flags contradict each other.
func (f *elasticFlags) check() error {
	if f.Elastic == "" {
		if f.Etcd != "" || f.Host != "" || f.Address != "" {
			return fmt.Errorf("--etcd, --host, --address: they are for --elastic=MIN:MAX")
		}
		return nil
	}
	if _, _, err := f.hosts(); err != nil {
		return err
	}
	if f.Host == "" {
		name, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("--host: this machine has no name: %w: give one", err)
		}
		f.Host, _, _ = strings.Cut(name, ".")
	}
	for flag, name := range map[string]string{"host": f.Host, "job": f.Job} {
		if !plainName.MatchString(name) {
			return fmt.Errorf("--%s=%s: want letters, digits, dots, dashes and underscores", flag, name)
		}
	}
	if f.Lease < time.Second || f.Lease > time.Hour {
		return fmt.Errorf("--lease=%v: want 1s to 1h", f.Lease)
	}
	if st, err := os.Stat(f.Memory); err != nil || !st.IsDir() {
		return fmt.Errorf("--memory=%s: want a directory", f.Memory)
	}
	return nil
}

// hosts returns the least and the largest number of hosts.
func (f *elasticFlags) hosts() (least, most int, err error) {
	lo, hi, ok := strings.Cut(f.Elastic, ":")
	least, err1 := strconv.Atoi(lo)
	most, err2 := strconv.Atoi(hi)
	if !ok || err1 != nil || err2 != nil || least < 1 || most < least {
		return 0, 0, fmt.Errorf("--elastic=%s: want at least and at most how many hosts, such as 2:8", f.Elastic)
	}
	if most > 1 && f.Etcd == "" {
		return 0, 0, fmt.Errorf(
			"--elastic=%s: several hosts agree by etcd: --etcd URL, or --etcd embedded=HOST; without, "+
				"--elastic 1:1 is one host",
			f.Elastic,
		)
	}
	return least, most, nil
}

// runElastic runs the agent of this host until the job ends.
func (c *launchCmd) runElastic(args []string) error {
	if withoutMPICH() {
		if err := bySockets(); err != nil {
			return err
		}
	}
	train, err := c.trains()
	if err != nil {
		return err
	}
	given, devices, err := train.asks()
	if err != nil {
		return err
	}
	least, most, err := c.hosts()
	if err != nil {
		return err
	}
	s, address, end, err := c.store()
	if err != nil {
		return err
	}
	defer end()
	defer s.Close()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	return exited(
		agent.Run(context.Background(), agent.Config{Job: c.Job, Host: c.Host, Processes: c.N, Args: args,
			Config: epoch.Config{Min: least, Max: most, Devices: devices, Version: programVersion(args[0]),
				Flags: strings.Join(append([]string{c.Elastic}, args[1:]...), " "), Price: hostPrices(train, given),
				Strategy: hostStrategies(train, given)},
			Store: s, Dir: c.Memory, Address: address, Lease: c.Lease, Stdout: os.Stdout, Stderr: os.Stderr,
			Signals: signals}),
	)
}

// trains returns the command that processes run, with its flags checked before anything starts.
func (c *launchCmd) trains() (*trainCmd, error) {
	train, err := parseTrain(c.command())
	if err == nil {
		err = train.validate()
	}
	return train, err
}

// parseTrain parses the command line of an elastic job, which must be one of galley train.
func parseTrain(args []string) (*trainCmd, error) {
	var cli commands
	parser, err := kong.New(
		&cli,
		kong.Name("galley"),
		kong.Exit(func(int) {}),
		kong.Writers(io.Discard, io.Discard),
		kong.Vars{
			"systems":   strings.Join(export.Systems(), ", "),
			"schedules": strings.Join(pipeline.Names(), ", "),
		},
	)
	if err != nil {
		return nil, err
	}
	ctx, err := parser.Parse(normalizeArgs(args))
	if err != nil {
		return nil, fmt.Errorf("%w%s", err, hint(err))
	}
	if name, _, _ := strings.Cut(ctx.Command(), " "); name != "train" {
		return nil, fmt.Errorf("--elastic: galley %s does not go on after a loss: want train", name)
	}
	return &cli.Train, nil
}

// asks returns the strategy that the command's flags set and its number of devices, which processes share;
// nil and 0 if the flags leave them open.
func (c *trainCmd) asks() (*galley.Strategy, int, error) {
	s, err := c.strategy()
	if err != nil || c.Mesh == "" || s == nil {
		return nil, c.Devices, err
	}
	return s, s.Devices(), nil
}

// store returns the key-value store by which hosts agree, and the address at which this host is reached; end
// stops the server that it started, if any.
func (c *launchCmd) store() (s store.Store, address string, end func(), err error) {
	end = func() {}
	if c.Etcd == "" {
		return store.NewMemory(), "127.0.0.1", end, nil
	}
	urls, own, err := etcd.Servers(c.Etcd, c.Host)
	if err != nil {
		return nil, "", end, fmt.Errorf("--etcd: %w", err)
	}
	if own != "" {
		self, err := os.Executable()
		if err != nil {
			return nil, "", end, err
		}
		list := strings.TrimPrefix(c.Etcd, etcd.Embedded)
		if end, err = etcd.Start(self, own, list,
			filepath.Join(os.TempDir(), "galley-etcd-"+c.Job+"-"+c.Host)); err != nil {
			return nil, "", func() {}, fmt.Errorf("--etcd: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), etcdFor)
	defer cancel()
	s, err = etcd.Wait(ctx, urls, c.Etcd != strings.Join(urls, ","))
	if err != nil {
		end()
		return nil, "", func() {}, fmt.Errorf("--etcd: %w", err)
	}
	if address = c.Address; address == "" {
		address = etcd.Reachable(urls)
	}
	return s, address, end, nil
}

// etcdFor is how long servers of hosts that start together have to find each other.
const etcdFor = 60 * time.Second

// openEtcd connects to the etcd of a job.
func openEtcd(ctx context.Context, text string) (store.Store, error) {
	urls, _, err := etcd.Servers(text, "")
	if err != nil {
		return nil, fmt.Errorf("--etcd: %w", err)
	}
	s, err := etcd.Open(ctx, urls)
	if err != nil {
		return nil, fmt.Errorf("--etcd: %w", err)
	}
	return s, nil
}

// programVersion returns what must be equal on all hosts: the program's hash, and the kernel set of the
// processor, on which numbers depend.
func programVersion(path string) string {
	h := crc32.NewIEEE()
	if f, err := os.Open(path); err == nil {
		_, _ = io.Copy(h, f) // after a read error the hash differs from other hosts'
		f.Close()
	}
	return fmt.Sprintf("%s %08x %s", versionText(), h.Sum32(), strings.Join(kernel.Features(), "+"))
}
