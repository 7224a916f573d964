package watcher

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"github.com/lb-render/lb-render/internal/types"
)

// lastValid is the file that keeps the last valid entries across restarts.
type lastValid struct {
	ConfigMap string          `json:"configMap"` // namespace/name
	Key       string          `json:"key"`
	Config    json.RawMessage `json:"config"`
}

// applyConfigMap reads the document, entry by entry. A document that cannot be
// parsed, or is gone, changes nothing at all. The lock is held.
func (w *Watcher) applyConfigMap(cm *v1.ConfigMap) {
	doc, err := w.parse(cm)
	if err != nil {
		w.metrics.WatchClusterConfig("error")
		if w.authored == nil {
			err = fmt.Errorf("%w; nothing is rendered before there is a valid one", err)
		} else {
			err = fmt.Errorf("%w; the last valid one stays in force", err)
		}
		if w.status.ConfigError == nil || w.status.ConfigError.Error() != err.Error() {
			w.statusLog.Error("the ConfigMap is not in force", "err", err)
		}
		w.status.ConfigError = err
		return
	}
	if w.status.ConfigError != nil {
		w.statusLog.Info("the ConfigMap is in force again")
		w.status.ConfigError = nil
	}
	w.authored = doc.KeepLastValid(w.authored)
	w.problems = doc.Problems
	w.saveLastValid()
}

func (w *Watcher) parse(cm *v1.ConfigMap) (*types.Document, error) {
	name := w.ConfigMapNamespace + "/" + w.ConfigMapName
	if cm == nil {
		return nil, fmt.Errorf("ConfigMap %s does not exist", name)
	}
	data, ok := cm.Data[w.ConfigKey]
	if !ok {
		return nil, fmt.Errorf("ConfigMap %s has no key %q", name, w.ConfigKey)
	}
	doc, err := types.Parse([]byte(data))
	if err != nil {
		return nil, fmt.Errorf("ConfigMap %s, key %s: %w", name, w.ConfigKey, err)
	}
	return doc, nil
}

// loadLastValid takes up what the process before us left. A file that cannot
// be read is worth a warning, not a refusal: the cluster has the truth.
func (w *Watcher) loadLastValid() {
	if w.opts.lastValid == "" {
		return
	}
	data, err := os.ReadFile(w.opts.lastValid)
	if errors.Is(err, fs.ErrNotExist) || w.opts.readOnly && errors.Is(err, fs.ErrPermission) {
		return
	}
	var file lastValid
	if err == nil {
		err = json.Unmarshal(data, &file)
	}
	var doc *types.Document
	if err == nil {
		doc, err = types.Parse(file.Config)
	}
	if err != nil {
		w.logger.Warn("the last valid entries cannot be read; going on without", "file", w.opts.lastValid, "err", err)
		return
	}
	if file.ConfigMap != w.ConfigMapNamespace+"/"+w.ConfigMapName || file.Key != w.ConfigKey {
		w.logger.Info("the last valid entries are those of another ConfigMap; not used", "file", w.opts.lastValid)
		return
	}
	w.authored = doc.Config
	w.saved = data
}

// saveLastValid writes the entries in force if they have changed. A failure
// is logged; serving goes on, only the next restart would know less.
func (w *Watcher) saveLastValid() {
	if w.opts.lastValid == "" || w.opts.readOnly {
		return
	}
	config, err := w.authored.MarshalAuthored()
	if err != nil {
		w.logger.Error("the last valid entries cannot be kept", "err", err)
		return
	}
	data, err := json.Marshal(lastValid{w.ConfigMapNamespace + "/" + w.ConfigMapName, w.ConfigKey, config})
	if err != nil || string(data) == string(w.saved) {
		return
	}
	if err := replaceFile(w.opts.lastValid, data); err != nil {
		if !w.unsaved {
			w.logger.Error("the last valid entries cannot be kept; tried again with the next change", "file", w.opts.lastValid, "err", err)
		}
		w.unsaved = true
		return
	}
	w.saved, w.unsaved = data, false
}

// replaceFile puts data in place whole: after a crash there is the old file or the new one.
func replaceFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails after the rename, as it should
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	return err
}
