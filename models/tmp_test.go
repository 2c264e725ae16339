package models
import ("testing";"math";"math/rand/v2";"path/filepath";"os";"encoding/json";"github.com/galley-ml/galley/nn";"github.com/galley-ml/galley/op";"github.com/galley-ml/galley/array")
func TestTmp(t *testing.T){
 for _,fam:=range []string{"llama","qwen2","gpt2","mixtral"}{
 for seed:=range 8 {
	dir:="../../shared/fixtures/"+fam
	text,_:=os.ReadFile(filepath.Join(dir,"reference.json"))
	var run training
	json.Unmarshal(text,&run)
	s:=newSession(t)
	m,_:=Load(dir,nn.Config{Scope:s,DType:array.F64})
	all:=openReference(t,dir).read(t,"ids")
	o:=adamW{training:run,m:map[string][]float64{},v:map[string][]float64{}}
	rng:=rand.New(rand.NewPCG(uint64(seed),1))
	worst:=0.0
	for step,want:=range run.Losses{
		ids,labels:=shifted(all.Rows(step,step+1))
		loss:=m.Loss(s.Tensor(ids),s.Tensor(labels))
		worst=max(worst,math.Abs(read(t,loss).At(0)-want))
		g:=op.GradOnce([]*op.Tensor{loss},nil,nn.Values(m.Params()))
	norm:=0.0
	for _,x:=range g{for _,y:=range read(t,x).Float64s(){norm+=y*y}}
	norm=math.Sqrt(norm); clip:=min(1,1/(norm+1e-6)); o.steps++
	c:=o.Optimizer
	for i,p:=range m.Params(){ x:=read(t,p.Value).Clone(); xs:=array.Data[float64](x)
		if o.m[p.Name]==nil{o.m[p.Name],o.v[p.Name]=make([]float64,len(xs)),make([]float64,len(xs))}
		mm,v:=o.m[p.Name],o.v[p.Name]
		gs:=read(t,g[i]).Float64s(); rms:=0.0; nz:=0.0
		for _,y:=range gs{if y!=0{rms+=y*y;nz++}}
		rms=math.Sqrt(rms/nz)
		f1,f2:=1-math.Pow(c.Betas[0],float64(o.steps)),1-math.Pow(c.Betas[1],float64(o.steps))
		for j,gg:=range gs{ if gg!=0{gg+=rms*5e-7*rng.NormFloat64()}; gg*=clip
			mm[j]=c.Betas[0]*mm[j]+(1-c.Betas[0])*gg; v[j]=c.Betas[1]*v[j]+(1-c.Betas[1])*gg*gg
			xs[j]=xs[j]*(1-c.LR*c.WeightDecay)-c.LR*(mm[j]/f1)/(math.Sqrt(v[j]/f2)+c.Eps)
		}
		p.Value=s.Tensor(x).Track()
	}}
	t.Logf("%s seed %d worst %.2g",fam,seed,worst)
 }}
}
