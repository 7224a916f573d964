module github.com/lb-render/lb-render

go 1.26
