// Package models holds the model families that Galley trains and serves, such as llama, mistral, qwen2,
// qwen3, gpt2 and mixtral, read from and written to Hugging Face directories.
//
// A Config is one form for all families; config.json in its older and newer forms is read into it. Parameters
// have the same names as in transformers, so that a checkpoint, an optimizer's state and an error message
// mean the same tensor by a name. If a family's files store a parameter in another form than it has in memory
// (Mixtral's experts), Load and Save convert it.
//
//	m, err := models.Load("llama-3-8b", nn.Config{Scope: session})
//	loss := m.Loss(ids, labels)
//	grads := op.GradOnce([]*op.Tensor{loss}, nil, nn.Values(m.Params()))
//	err = models.Save("out", m, models.SaveConfig{})
package models
