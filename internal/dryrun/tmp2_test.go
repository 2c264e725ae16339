package dryrun
import "github.com/galley-ml/galley/models"
func modelsConfig() models.Config { return models.Config{} }
