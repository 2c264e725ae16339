package runs

import (
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// plain converts what a row expresses in words, or by other quantities, to the numbers of its fields. What it
// cannot parse is unchanged.
func plain(row map[string]any) {
	model, strategy, cluster, measured := object(row, "model"), object(row, "strategy"), object(row, "cluster"),
		object(row, "measured")
	plainExperts(model)
	plainNodes(cluster)
	plainSharding(strategy, cluster)
	for _, name := range []string{"sp", "activation_cpu_offload"} {
		plainTruth(strategy, name)
	}
	plainTruth(model, "tied")
	plainRecompute(strategy)
	plainBatch(strategy, model)
	for _, name := range []string{"mfu", "hfu"} {
		plainPart(measured, name)
	}
	plainTime(measured)
}

// plainExperts parses a count instead of a description of experts, and the fields beside it.
func plainExperts(model map[string]any) {
	count, ok := model["moe"].(float64)
	if !ok {
		if model["moe"] == false {
			delete(model, "moe")
		}
		return
	}
	moe := map[string]any{"experts": count}
	for _, name := range slices.Sorted(maps.Keys(model)) {
		to := name
		if s := spellings["moe"][name]; s != "" && name != "ffn" {
			to = s
		}
		if slices.Contains([]string{"topk", "moe_ffn", "shared_experts", "shared_ffn", "dense_layers"}, to) {
			moe[to] = model[name]
			delete(model, name)
		}
	}
	model["moe"] = moe
}

// plainNodes parses a number of hosts instead of a list of them.
func plainNodes(cluster map[string]any) {
	hosts, ok := cluster["nodes"].(float64)
	if !ok {
		return
	}
	delete(cluster, "nodes")
	each, _ := cluster["gpus_per_node"].(float64)
	all, given := cluster["gpus"].(float64)
	switch {
	case !given && each == 0:
		cluster["gpus"] = hosts * usualHost
	case !given:
		cluster["gpus"] = hosts * each
	case each == 0 && hosts > 0:
		cluster["gpus_per_node"] = float64(int(all / hosts))
	}
}

// plainSharding parses the names of ZeRO's stages, and degrees of sharding and replication.
func plainSharding(strategy, cluster map[string]any) {
	if word, ok := strategy["zero"].(string); ok {
		stage, shard := zeroStage(word)
		if stage >= 0 {
			strategy["zero"] = float64(stage)
		}
		if per := cluster["gpus_per_node"]; shard && strategy["zero1_group"] == nil && per != nil {
			strategy["zero1_group"] = per
		}
	}
	by, ok := strategy["dp_shard"].(float64)
	if !ok || by < 1 {
		return
	}
	copies, _ := strategy["dp_replicate"].(float64)
	if strategy["dp"] == nil {
		strategy["dp"] = by * max(1, copies)
	}
	if strategy["zero"] == nil && by > 1 {
		strategy["zero"] = 3.0
	}
	if copies > 1 && strategy["zero1_group"] == nil {
		strategy["zero1_group"] = by
	}
	delete(strategy, "dp_shard")
	delete(strategy, "dp_replicate")
}

var stageNumber = regexp.MustCompile(`(?:zero|stage)[ _-]*([0-3])`)

// zeroStage returns the ZeRO stage that a word means, -1 if unknown; shard means that it is over the devices
// of a host.
func zeroStage(word string) (stage int, shard bool) {
	w := strings.ToLower(word)
	has := func(names ...string) bool { return containsAny(w, names) }
	switch m := stageNumber.FindStringSubmatch(w); {
	case m != nil:
		return *number(m[1]), false
	case has("hsdp", "hybrid"):
		return 3, true
	case has("fsdp", "full"):
		return 3, false
	case has("os+g", "os_g", "grad"):
		return 2, false
	case has("dist", "optimizer") || w == "os":
		return 1, false
	case has("none", "ddp", "false", "off") || w == "no":
		return 0, false
	}
	return -1, false
}

func plainTruth(fields map[string]any, name string) {
	switch x := fields[name].(type) {
	case string:
		if b, ok := truth(x); ok {
			fields[name] = b
		}
	case float64:
		fields[name] = x != 0
	}
}

// truth reads a word for yes or no.
func truth(word string) (yes, ok bool) {
	switch strings.ToLower(strings.TrimSpace(word)) {
	case "true", "yes", "on", "1", "enabled":
		return true, true
	case "false", "no", "off", "0", "none", "disabled":
		return false, true
	}
	return false, false
}

func plainRecompute(strategy map[string]any) {
	switch x := strategy["recompute"].(type) {
	case bool:
		strategy["recompute"] = map[bool]string{true: "full", false: "none"}[x]
	case float64:
		strategy["recompute"] = strconv.FormatFloat(x, 'g', -1, 64)
	}
}

// plainBatch makes sequences of a batch in tokens.
func plainBatch(strategy, model map[string]any) {
	tokens, ok := strategy["global_batch_tokens"].(float64)
	seq, known := model["seq_len"].(float64)
	if !ok || !known || seq < 1 {
		return
	}
	if strategy["global_batch"] == nil {
		strategy["global_batch"] = float64(int(tokens/seq + 0.5))
	}
	delete(strategy, "global_batch_tokens")
}

// plainPart parses a share of the peak: 43% and 43 are 0.43, since it cannot exceed 1.
func plainPart(measured map[string]any, name string) {
	if s, ok := measured[name].(string); ok {
		if x, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(s, "%")), 64); err == nil {
			measured[name] = x
		}
	}
	if x, ok := measured[name].(float64); ok && x > 1.5 {
		measured[name] = x / 100
	}
}

var timed = regexp.MustCompile(`^\s*([\d.]+)\s*(ms|s|sec|seconds|min)\s*$`)

// plainTime reads a time with its unit.
func plainTime(measured map[string]any) {
	s, _ := measured["step_time_s"].(string)
	m := timed.FindStringSubmatch(s)
	if m == nil {
		return
	}
	x, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return
	}
	switch m[2] {
	case "ms":
		x /= 1e3
	case "min":
		x *= 60
	}
	measured["step_time_s"] = x
}

// known are fields without information for a prediction beyond that of the others.
var known = []string{"derived", "predicted_by", "strategy.micro_batch_count", "strategy.ici_tensor",
	"strategy.dcn_data", "measured.days_300B_tokens", "measured.tflops_best_without_cp",
	"measured.peak_reserved_gib"}

// unread returns the fields of a row that have a value but are not used here.
func unread(row map[string]any) (names []string) {
	var look func(fields map[string]any, t reflect.Type, before string)
	look = func(fields map[string]any, t reflect.Type, before string) {
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			full := before + name
			f, ok := jsonField(t, name)
			switch inner, isObject := fields[name].(map[string]any); {
			case fields[name] == nil || slices.Contains(known, full):
			case !ok:
				names = append(names, full)
			case isObject:
				if f.Kind() == reflect.Pointer {
					f = f.Elem()
				}
				look(inner, f, full+".")
			}
		}
	}
	look(row, reflect.TypeFor[runRow](), "")
	return names
}

// jsonField returns the type of the field that a name is read into.
func jsonField(t reflect.Type, name string) (reflect.Type, bool) {
	for i := range t.NumField() {
		if tag := t.Field(i).Tag.Get("json"); tag != "" && strings.EqualFold(tag, name) {
			return t.Field(i).Type, true
		}
	}
	return nil, false
}
