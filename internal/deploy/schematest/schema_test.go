// Package schematest reads the manifests of galley kubernetes with Kubernetes' own Go types. It is a module
// of its own, so that nobody else needs those:
//
//	go -C internal/deploy/schematest test .
package schematest

import (
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/galley-ml/galley/internal/deploy"
)

// jobSet has the fields of a JobSet of jobset.x-k8s.io/v1alpha2 that manifests use, and no others; what is
// within its jobs is Kubernetes' own.
type jobSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Network struct {
			EnableDNSHostnames *bool `json:"enableDNSHostnames"`
		} `json:"network"`
		FailurePolicy struct {
			MaxRestarts int32 `json:"maxRestarts"`
		} `json:"failurePolicy"`
		ReplicatedJobs []struct {
			Name     string                  `json:"name"`
			Replicas int32                   `json:"replicas"`
			Template batchv1.JobTemplateSpec `json:"template"`
		} `json:"replicatedJobs"`
	} `json:"spec"`
}

// pyTorchJob is the same of kubeflow.org/v1's.
type pyTorchJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Replicas map[string]struct {
			Replicas      *int32                 `json:"replicas"`
			RestartPolicy string                 `json:"restartPolicy"`
			Template      corev1.PodTemplateSpec `json:"template"`
		} `json:"pytorchReplicaSpecs"`
	} `json:"spec"`
}

// jobs returns manifests with everything that can be asked for, and with as little as possible.
func jobs(kind string) []deploy.Kubernetes {
	args := []string{"train", "--mesh", "dp=4", "--checkpoint", "/state/it's a run"}
	little := deploy.Kubernetes{Kind: kind, Name: "llama", Namespace: "default", Image: "galley:1", Processes: 1,
		Hosts: deploy.Hosts{Least: 1, Most: 1}, Shared: "1Gi", Grace: 30, Args: args}
	all := little
	all.Processes, all.Cores, all.GPUs, all.Hosts = 8, 2, 8, deploy.Hosts{Least: 3, Most: 4}
	all.Memory, all.Claim, all.Mount, all.Etcd = "64Gi", "runs", "/state", "http://etcd:2379"
	return []deploy.Kubernetes{little, all}
}

// documents returns those of a manifest.
func documents(t *testing.T, k deploy.Kubernetes) []string {
	t.Helper()
	text, err := k.Text()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(text, "---\n")
}

// read refuses fields that the type has not, fields that come twice, and values of another type.
func read(t *testing.T, text string, to any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), to); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
}

// TestManifests: every manifest reads as its API has it.
func TestManifests(t *testing.T) {
	for _, k := range jobs("Job") {
		docs := documents(t, k)
		var s corev1.Service
		read(t, docs[0], &s)
		is(t, s.TypeMeta, "v1", "Service")
		var j batchv1.Job
		read(t, docs[1], &j)
		is(t, j.TypeMeta, "batch/v1", "Job")
		checkJob(t, k, &j.Spec)
	}
	for _, k := range jobs("JobSet") {
		var s jobSet
		read(t, documents(t, k)[0], &s)
		is(t, s.TypeMeta, "jobset.x-k8s.io/v1alpha2", "JobSet")
		checkJob(t, k, &s.Spec.ReplicatedJobs[0].Template.Spec)
	}
	for _, k := range jobs("PyTorchJob") {
		var p pyTorchJob
		read(t, documents(t, k)[0], &p)
		is(t, p.TypeMeta, "kubeflow.org/v1", "PyTorchJob")
		n := 0
		for name, r := range p.Spec.Replicas {
			if name != "Master" && name != "Worker" {
				t.Errorf("replicas %q", name)
			}
			n += int(*r.Replicas)
			checkPod(t, k, &r.Template.Spec)
		}
		if n != k.Hosts.Most {
			t.Errorf("got %d pods, want %d", n, k.Hosts.Most)
		}
	}
}

func is(t *testing.T, m metav1.TypeMeta, api, kind string) {
	t.Helper()
	if m.APIVersion != api || m.Kind != kind {
		t.Errorf("got %s of %s, want %s of %s", m.Kind, m.APIVersion, kind, api)
	}
}

// checkJob asks for what the API demands beyond types: limits by index are of indexed jobs whose pods never
// restart in place.
func checkJob(t *testing.T, k deploy.Kubernetes, j *batchv1.JobSpec) {
	t.Helper()
	if *j.CompletionMode != batchv1.IndexedCompletion || j.BackoffLimitPerIndex == nil ||
		j.Template.Spec.RestartPolicy != corev1.RestartPolicyNever || *j.PodReplacementPolicy != batchv1.Failed {
		t.Errorf("got %+v", j)
	}
	if int(*j.Completions) != k.Hosts.Most || *j.Parallelism != *j.Completions {
		t.Errorf("got %d completions of %d pods, want %d", *j.Completions, *j.Parallelism, k.Hosts.Most)
	}
	checkPod(t, k, &j.Template.Spec)
}

// checkPod asks that mounts have volumes, and that amounts are those asked for.
func checkPod(t *testing.T, k deploy.Kubernetes, p *corev1.PodSpec) {
	t.Helper()
	volumes := map[string]bool{}
	for _, v := range p.Volumes {
		volumes[v.Name] = true
	}
	c := p.Containers[0]
	for _, m := range c.VolumeMounts {
		if !volumes[m.Name] {
			t.Errorf("no volume %q", m.Name)
		}
	}
	shared := p.Volumes[0].EmptyDir
	if shared == nil || shared.Medium != corev1.StorageMediumMemory || shared.SizeLimit.String() != k.Shared {
		t.Errorf("got /dev/shm %+v, want %s", shared, k.Shared)
	}
	limit := c.Resources.Limits[corev1.ResourceCPU]
	if limit.Value() != int64(k.Cores*k.Processes) {
		t.Errorf("got %v cores, want %d", limit, k.Cores*k.Processes)
	}
	if c.LivenessProbe.Exec == nil || c.Env[0].ValueFrom.FieldRef.FieldPath != "status.podIP" {
		t.Errorf("got container %+v", c)
	}
}

// TestRefused: the reader refuses what no API has, so that the tests above can fail.
func TestRefused(t *testing.T) {
	job := documents(t, jobs("Job")[1])[1]
	for _, change := range [][2]string{{"completionMode:", "completionsMode:"}, {"mountPath:", "mountsPath:"},
		{"completions: 4", "completions: four"}, {"sizeLimit: 1Gi", "sizeLimit: 1GiB"}} {
		text := strings.Replace(job, change[0], change[1], 1)
		if text == job {
			t.Fatalf("no %q in\n%s", change[0], job)
		}
		var j batchv1.Job
		if err := yaml.UnmarshalStrict([]byte(text), &j); err == nil {
			t.Errorf("%s was read as %s", change[1], fmt.Sprint(j.Spec.Template.Spec.Volumes))
		}
	}
}
