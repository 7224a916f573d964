package template

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"text/template"
	"time"

	"sigs.k8s.io/yaml"
)

// ours are the functions beside sprig's, and those in the place of sprig's that
// give an order to maps, take any map with string keys (a Listener's Labels is
// one), or read neither clock nor host.
func ours() template.FuncMap {
	return template.FuncMap{
		// They need the render they are part of; execute binds them.
		"include":   func(string, any) (string, error) { return "", errUnbound },
		"endpoints": func(string, string, any) (string, error) { return "", errUnbound },

		"required": required,
		"toYaml":   toYaml,

		"hostPort":  hostPort,
		"bracket":   bracket,
		"ipAddress": ipAddress,
		"isIPv4":    isIPv4,
		"isIPv6":    isIPv6,
		"mss":       mss,
		"vrid":      vrid,
		"ipvsFlag":  ipvsFlag,
		"ipvsProto": ipvsProto,

		"ofProtocol":  ofProtocol,
		"realServers": realServers,
		"totalWeight": totalWeight,
		"addresses":   addresses,

		"haproxyQuote":    haproxyQuote,
		"keepalivedQuote": keepalivedQuote,
		"identifier":      identifier,
		"comment":         comment,

		"keys":           sortedMapKeys,
		"values":         sortedMapValues,
		"get":            get,
		"hasKey":         hasKey,
		"dig":            dig,
		"sortAlpha":      sortAlpha,
		"dateInZone":     dateInZone,
		"date_in_zone":   dateInZone,
		"htmlDateInZone": func(date any, zone string) (string, error) { return dateInZone(time.DateOnly, date, zone) },
		"durationRound":  durationRound,
	}
}

var errUnbound = errors.New("called outside of a render")

// required returns value, or an error with message if it is nil or "".
func required(message string, value any) (any, error) {
	if s, ok := value.(string); value == nil || ok && s == "" {
		return nil, errors.New(message)
	}
	return value, nil
}

// toYaml returns value as YAML with sorted keys and without the last line break.
func toYaml(value any) (string, error) {
	b, err := yaml.Marshal(value)
	return strings.TrimSuffix(string(b), "\n"), err
}

// mapOf returns the reflection of a map with string keys; nil is an empty map.
func mapOf(m any) (reflect.Value, error) {
	if m == nil {
		return reflect.ValueOf(map[string]any{}), nil
	}
	v := reflect.ValueOf(m)
	if v.Kind() != reflect.Map || v.Type().Key().Kind() != reflect.String {
		return reflect.Value{}, fmt.Errorf("needs a map with text as keys, not a %T", m)
	}
	return v, nil
}

// lookUp returns the value of a key; ok is false if the key is absent.
func lookUp(m any, key string) (value any, ok bool, err error) {
	v, err := mapOf(m)
	if err != nil {
		return nil, false, err
	}
	e := v.MapIndex(reflect.ValueOf(key).Convert(v.Type().Key()))
	if !e.IsValid() {
		return nil, false, nil
	}
	return e.Interface(), true, nil
}

// sortedMapKeys returns the keys of all maps, each map's in order.
func sortedMapKeys(dicts ...any) ([]string, error) {
	out := []string{}
	for _, d := range dicts {
		v, err := mapOf(d)
		if err != nil {
			return nil, err
		}
		var part []string
		for _, k := range v.MapKeys() {
			part = append(part, k.String())
		}
		slices.Sort(part)
		out = append(out, part...)
	}
	return out, nil
}

// sortedMapValues returns the values of a map in the order of its keys.
func sortedMapValues(dict any) ([]any, error) {
	keys, err := sortedMapKeys(dict)
	if err != nil {
		return nil, err
	}
	out := []any{}
	for _, k := range keys {
		value, _, _ := lookUp(dict, k)
		out = append(out, value)
	}
	return out, nil
}

// get returns the value of a key, or "" if it is absent or null.
func get(dict any, key string) (any, error) {
	value, _, err := lookUp(dict, key)
	if value == nil {
		return "", err
	}
	return value, nil
}

// hasKey reports whether a map has a key.
func hasKey(dict any, key string) (bool, error) {
	_, ok, err := lookUp(dict, key)
	return ok, err
}

// dig KEY… DEFAULT MAP returns what is under the keys, or the default where one
// of them is absent or null. (sprig's returns the null, which prints as "<no value>".)
func dig(args ...any) (any, error) {
	if len(args) < 3 {
		return nil, errors.New("needs at least a key, a default and a map")
	}
	otherwise, at := args[len(args)-2], args[len(args)-1]
	for i, a := range args[:len(args)-2] {
		key, ok := a.(string)
		if !ok {
			return nil, fmt.Errorf("key %d is a %T, not text", i+1, a)
		}
		value, _, err := lookUp(at, key)
		if err != nil {
			return nil, fmt.Errorf("key %q: %w", key, err)
		}
		if value == nil {
			return otherwise, nil
		}
		at = value
	}
	return at, nil
}

// sortAlpha returns a sorted copy. (sprig's sorts a []string where it is, and
// so would change the ClusterConfig.)
func sortAlpha(list any) ([]string, error) {
	out := []string{}
	v := reflect.ValueOf(list)
	if !v.IsValid() {
		return out, nil
	}
	if v.Kind() != reflect.Slice && v.Kind() != reflect.Array {
		return []string{fmt.Sprint(list)}, nil
	}
	for i := range v.Len() {
		if e := v.Index(i).Interface(); e != nil {
			out = append(out, fmt.Sprint(e))
		}
	}
	slices.Sort(out)
	return out, nil
}

// dateInZone formats a time, or seconds since 1970. sprig's takes the current
// time for anything else, UTC for a zone it does not know, and the host's zone for "Local".
func dateInZone(layout string, date any, zone string) (string, error) {
	var t time.Time
	switch d := date.(type) {
	case time.Time:
		t = d
	case *time.Time:
		t = *d
	case int, int32, int64:
		t = time.Unix(reflect.ValueOf(d).Int(), 0)
	default:
		return "", fmt.Errorf("%v is a %T, neither a time nor seconds since 1970", date, date)
	}
	if zone == "Local" {
		return "", errors.New(`zone "Local" is the host's; name one, as "UTC" or "Europe/Berlin"`)
	}
	loc, err := time.LoadLocation(zone)
	if err != nil {
		return "", err
	}
	return t.In(loc).Format(layout), nil
}

// durationRound is sprig's without what reads the clock: a time.Time.
func durationRound(duration any) (string, error) {
	var d time.Duration
	switch v := duration.(type) {
	case string:
		var err error
		if d, err = time.ParseDuration(v); err != nil {
			return "", err
		}
	case int64:
		d = time.Duration(v)
	case int:
		d = time.Duration(v)
	case time.Duration:
		d = v
	default:
		return "", fmt.Errorf("%v is a %T, not a duration", duration, duration)
	}
	const day = 24 * time.Hour
	d = d.Abs()
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{365 * day, "y"}, {30 * day, "mo"}, {day, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}} {
		if d > unit.length {
			return fmt.Sprintf("%d%s", d/unit.length, unit.name), nil
		}
	}
	return "0s", nil
}

// plainParams copies params, so that no template can change what another one
// reads, and makes whole numbers ints: YAML readers make floats of them, and
// 1000000 would print as 1e+06.
func plainParams(params map[string]any) map[string]any {
	out := make(map[string]any, len(params))
	for k, v := range params {
		out[k] = plain(v)
	}
	return out
}

func plain(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return plainParams(v)
	case map[any]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[fmt.Sprint(k)] = plain(e)
		}
		return out
	case map[string]string:
		return maps.Clone(v)
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = plain(e)
		}
		return out
	case []string:
		return slices.Clone(v)
	case float64:
		if v == float64(int(v)) && v > -1<<53 && v < 1<<53 {
			return int(v)
		}
	case int64:
		return int(v)
	case int32:
		return int(v)
	case uint64:
		if v <= 1<<62 {
			return int(v)
		}
	}
	return v
}
