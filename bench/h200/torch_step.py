# Baseline: decoder-only transformer training step on one GPU, PyTorch eager / compile.
import torch, torch.nn as nn, torch.nn.functional as F, time, os, sys, json
torch.set_float32_matmul_precision('high')
class RMS(nn.Module):
    def __init__(s,d): super().__init__(); s.w=nn.Parameter(torch.ones(d))
    def forward(s,x): return F.rms_norm(x,(x.shape[-1],),s.w,1e-5)
def rope(q,cos,sin):
    h=q.shape[-1]//2; a,b=q[...,:h],q[...,h:]
    return torch.cat([a*cos-b*sin,b*cos+a*sin],-1).to(q.dtype)
class Block(nn.Module):
    def __init__(s,d,h,kv,f):
        super().__init__(); s.h,s.kv,s.hd=h,kv,d//h
        s.n1,s.n2=RMS(d),RMS(d)
        s.q=nn.Linear(d,d,bias=False); s.k=nn.Linear(d,kv*s.hd,bias=False); s.v=nn.Linear(d,kv*s.hd,bias=False); s.o=nn.Linear(d,d,bias=False)
        s.g=nn.Linear(d,f,bias=False); s.u=nn.Linear(d,f,bias=False); s.dn=nn.Linear(f,d,bias=False)
    def forward(s,x,cos,sin):
        B,T,D=x.shape; y=s.n1(x)
        q=s.q(y).view(B,T,s.h,s.hd).transpose(1,2); k=s.k(y).view(B,T,s.kv,s.hd).transpose(1,2); v=s.v(y).view(B,T,s.kv,s.hd).transpose(1,2)
        q=rope(q,cos,sin); k=rope(k,cos,sin)
        o=F.scaled_dot_product_attention(q,k,v,is_causal=True,enable_gqa=(s.kv!=s.h)).transpose(1,2).reshape(B,T,D)
        x=x+s.o(o); y=s.n2(x)
        return x+s.dn(F.silu(s.g(y))*s.u(y))
class GPT(nn.Module):
    def __init__(s,V,L,d,h,kv,f,T):
        super().__init__(); s.e=nn.Embedding(V,d); s.bl=nn.ModuleList([Block(d,h,kv,f) for _ in range(L)]); s.n=RMS(d); s.hd=nn.Linear(d,V,bias=False)
        hd=d//h; t=torch.arange(T).float()[:,None]*(1e4**(-torch.arange(0,hd,2).float()/hd))[None]
        s.register_buffer('cos',t.cos()); s.register_buffer('sin',t.sin())
        for p in s.parameters():
            if p.dim()==2: nn.init.normal_(p,0,0.02)
    def forward(s,x,y):
        z=s.e(x)
        for b in s.bl: z=b(z,s.cos,s.sin)
        return F.cross_entropy(s.hd(s.n(z)).float().view(-1,s.hd.out_features),y.view(-1))
def bench(name,cfg,B,T,compile,steps=20):
    torch.manual_seed(0)
    m=GPT(T=T,**cfg).cuda(); n=sum(p.numel() for p in m.parameters())
    opt=torch.optim.AdamW(m.parameters(),lr=3e-4,fused=True)
    f=torch.compile(m) if compile else m
    x=torch.randint(0,cfg['V'],(B,T),device='cuda'); y=torch.randint(0,cfg['V'],(B,T),device='cuda')
    def step():
        with torch.autocast('cuda',torch.bfloat16): l=f(x,y)
        l.backward(); opt.step(); opt.zero_grad(set_to_none=True); return l
    for _ in range(4): l=step()
    torch.cuda.synchronize(); torch.cuda.reset_peak_memory_stats(); ts=[]
    for _ in range(steps):
        t=time.time(); l=step(); torch.cuda.synchronize(); ts.append(time.time()-t)
    ahead=[]; before=None; last=time.time()
    for k in range(steps+4): # each step starts before the one before it is waited for
        step(); e=torch.cuda.Event(); e.record()
        if before is not None:
            before.synchronize(); now=time.time(); ahead.append(now-last); last=now
        before=e
    torch.cuda.synchronize(); ahead=sorted(ahead[3:])
    ts.sort(); t=ts[len(ts)//2]
    fl=(6*(n-cfg['V']*cfg['d'])+6*cfg['L']*T*cfg['d'])*B*T  # causal attention counted once
    print(json.dumps(dict(name=name,compile=compile,params=n,B=B,T=T,ms=round(t*1e3,2),ahead_ms=round(ahead[len(ahead)//2]*1e3,2),tok_s=round(B*T/t),tflops=round(fl/t/1e12,1),peak_gb=round(torch.cuda.max_memory_allocated()/2**30,1),loss=round(l.item(),4))),flush=True)
small=dict(V=50304,L=12,d=768,h=12,kv=12,f=2048)
big=dict(V=32000,L=16,d=2048,h=16,kv=16,f=5632)
which=os.environ.get('ONLY','ab')
for c in ((False,True) if 'eager' in sys.argv else (True,)):
    if 'a' in which: bench('a',small,32,1024,c); torch.cuda.empty_cache()
    if 'b' in which: bench('b',big,8,2048,c); torch.cuda.empty_cache()
