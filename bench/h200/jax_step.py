import jax, jax.numpy as jnp, time, json, sys, os
from functools import partial
def init(key,c):
    V,L,d,h,kv,f=c['V'],c['L'],c['d'],c['h'],c['kv'],c['f']; hd=d//h
    ks=jax.random.split(key,3+L*7); n=lambda k,s:jax.random.normal(k,s,jnp.float32)*0.02
    p=dict(e=n(ks[0],(V,d)),head=n(ks[1],(d,V)),n=jnp.ones(d),bl=[])
    for i in range(L):
        k=ks[3+7*i:10+7*i]
        p['bl'].append(dict(n1=jnp.ones(d),n2=jnp.ones(d),q=n(k[0],(d,d)),k=n(k[1],(d,kv*hd)),v=n(k[2],(d,kv*hd)),o=n(k[3],(d,d)),g=n(k[4],(d,f)),u=n(k[5],(d,f)),dn=n(k[6],(f,d))))
    return p
def rms(x,w): 
    y=x.astype(jnp.float32); return (y*jax.lax.rsqrt(jnp.mean(y*y,-1,keepdims=True)+1e-5)*w).astype(x.dtype)
def rope(q,cos,sin):
    a,b=jnp.split(q,2,-1); return jnp.concatenate([a*cos-b*sin,b*cos+a*sin],-1).astype(q.dtype)
def fwd(p,x,y,c,impl):
    B,T=x.shape; h,kv=c['h'],c['kv']; hd=c['d']//h; bf=jnp.bfloat16
    t=jnp.arange(T,dtype=jnp.float32)[:,None]*(1e4**(-jnp.arange(0,hd,2,dtype=jnp.float32)/hd))[None]
    cos,sin=jnp.cos(t)[None,:,None,:],jnp.sin(t)[None,:,None,:]
    z=p['e'].astype(bf)[x]
    for b in p['bl']:
        u=rms(z,b['n1'])
        q=rope((u@b['q'].astype(bf)).reshape(B,T,h,hd),cos,sin); k=rope((u@b['k'].astype(bf)).reshape(B,T,kv,hd),cos,sin); v=(u@b['v'].astype(bf)).reshape(B,T,kv,hd)
        o=jax.nn.dot_product_attention(q,k,v,is_causal=True,implementation=impl).reshape(B,T,-1)
        z=z+o@b['o'].astype(bf); u=rms(z,b['n2'])
        z=z+(jax.nn.silu(u@b['g'].astype(bf))*(u@b['u'].astype(bf)))@b['dn'].astype(bf)
    lg=(rms(z,p['n'])@p['head'].astype(bf)).astype(jnp.float32)
    return (jax.nn.logsumexp(lg,-1)-jnp.take_along_axis(lg,y[...,None],-1)[...,0]).mean()
def step(p,m,v,i,x,y,c,impl):
    l,g=jax.value_and_grad(fwd)(p,x,y,c,impl)
    b1,b2,lr,eps,wd=0.9,0.999,3e-4,1e-8,0.01; i=i+1
    m=jax.tree.map(lambda a,b:b1*a+(1-b1)*b,m,g); v=jax.tree.map(lambda a,b:b2*a+(1-b2)*b*b,v,g)
    p=jax.tree.map(lambda p,m,v:p*(1-lr*wd)-lr*(m/(1-b1**i))/(jnp.sqrt(v/(1-b2**i))+eps),p,m,v)
    return p,m,v,i,l
def bench(name,c,B,T,impl,steps=20):
    p=init(jax.random.key(0),c); n=sum(a.size for a in jax.tree.leaves(p)); m=jax.tree.map(jnp.zeros_like,p); v=jax.tree.map(jnp.zeros_like,p); i=jnp.float32(0)
    x=jax.random.randint(jax.random.key(1),(B,T),0,c['V']); y=jax.random.randint(jax.random.key(2),(B,T),0,c['V'])
    f=jax.jit(partial(step,c=c,impl=impl),donate_argnums=(0,1,2,3))
    t=time.time(); ex=f.lower(p,m,v,i,x,y).compile(); ct=time.time()-t
    for _ in range(3): p,m,v,i,l=ex(p,m,v,i,x,y)
    l.block_until_ready(); ts=[]
    for _ in range(steps):
        t=time.time(); p,m,v,i,l=ex(p,m,v,i,x,y); l.block_until_ready(); ts.append(time.time()-t)
    ahead=[]; before=None; last=time.time()
    for k in range(steps+4): # each step starts before the one before it is waited for
        p,m,v,i,l=ex(p,m,v,i,x,y)
        if before is not None:
            before.block_until_ready(); now=time.time(); ahead.append(now-last); last=now
        before=l
    l.block_until_ready(); ahead=sorted(ahead[3:])
    ma=ex.memory_analysis(); ts.sort(); t=ts[len(ts)//2]; fl=(6*(n-c['V']*c['d'])+6*c['L']*T*c['d'])*B*T
    print(json.dumps(dict(fw='jax',name=name,impl=impl,params=n,ms=round(t*1e3,2),ahead_ms=round(ahead[len(ahead)//2]*1e3,2),tok_s=round(B*T/t),tflops=round(fl/t/1e12,1),compile_s=round(ct,1),loss=round(float(l),4),temp_gib=round(ma.temp_size_in_bytes/2**30,2),peak_gib=round((ma.temp_size_in_bytes+ma.argument_size_in_bytes+ma.output_size_in_bytes-ma.alias_size_in_bytes)/2**30,2))),flush=True)
small=dict(V=50304,L=12,d=768,h=12,kv=12,f=2048); big=dict(V=32000,L=16,d=2048,h=16,kv=16,f=5632)
if len(sys.argv)>1:
    q=jnp.zeros((2,256,4,64),jnp.bfloat16)
    g=jax.jit(jax.value_and_grad(lambda q,k,v: jax.nn.dot_product_attention(q,k,v,is_causal=True,implementation='cudnn').astype(jnp.float32).sum(),argnums=(0,1,2)))
    open(sys.argv[1],'w').write(g.lower(q,q,q).as_text()); sys.exit()
which=os.environ.get('ONLY','ab')
if 'a' in which: bench('a',small,32,1024,'cudnn')
if 'b' in which: bench('b',big,8,2048,'cudnn')
